"""GMLake against its committed figures: traces, and random requests that meet every rule."""

import csv

import pytest

from tests.simulate.allocators.serving.gmlake_answers import draw
from tests.simulate.allocators.serving.gmlake_goldens import COLUMNS, FILE, SEEDS, of_random, of_traces, traces


def committed() -> dict[str, list[str]]:
    with FILE.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    return {row[0]: row for row in rows}


def test_some_traces() -> None:
    known = committed()
    assert all(row == known[row[0]] for row in of_traces(("bert-large", "gpt-2", "spos")))


@pytest.mark.slow
def test_traces() -> None:
    assert list(of_traces(traces())) == [row for name, row in committed().items() if not name.startswith("random")]


def test_random_requests() -> None:
    assert list(of_random()) == [row for name, row in committed().items() if name.startswith("random")]


def test_random_requests_meet_every_rule() -> None:
    """They are as good as what they reach."""
    rows = [row for name, row in committed().items() if name.startswith("random")]
    column = {name: [int(row[at]) for row in rows] for at, name in enumerate(COLUMNS) if at}
    assert sum(column["stitches"]) > 1000
    assert sum(column["refused"]) > 500
    assert sum(column["faults"]) > 3
    drawn = [draw(seed) for seed in SEEDS]
    letters = {op for ops, _ in drawn for op, *_ in ops}
    assert letters == set("aferdt")
    assert {options.realloc for _, options in drawn} == {False, True}
