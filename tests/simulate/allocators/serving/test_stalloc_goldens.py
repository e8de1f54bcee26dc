"""Planned memory on eight streams: as on the day when it took no more than STAlloc's released program on any."""

import csv
from itertools import pairwise

import pytest

from tests.simulate.allocators.serving.stalloc_goldens import DIFFERENT, GOLDENS, RELEASED, TRACES, released_rows, rows


@pytest.mark.parametrize("names", [("bert-large",), pytest.param(TRACES, marks=pytest.mark.slow)])
def test_as_on_that_day_and_no_worse_for_knowing_more(names: tuple[str, ...]) -> None:
    with GOLDENS.open(newline="") as file:
        golden = [row for row in csv.DictReader(file) if row["trace"] in names]
    found = rows(name for name in TRACES if name in names)
    assert found == golden
    assert {row["plan_above_bound"] for row in found} == {"0"}
    for name in set(DIFFERENT) & set(names):
        reserved = [int(row["reserved"]) for row in found if row["trace"] == name]
        assert all(more <= less for less, more in pairwise(reserved)), (name, reserved)


def test_its_rules() -> None:
    with RELEASED.open(newline="") as file:
        assert released_rows() == list(csv.DictReader(file))
