"""What a user sees of the replay of a long run: the report's rows."""

import random

import pytest

from coopsim.run.longrun.run import Card, LongRun
from coopsim.run.longrun.verdict import LongVerdict, judge
from coopsim.run.records_memory import HostMemory, Loader, Pinned, Workers
from tests.run.longrun.made import MIB, varying

LENGTHS = random.Random(5).choices(range(4, 40), k=150)


@pytest.fixture(scope="module")
def leaks() -> LongVerdict:
    return judge(LongRun(varying([8] * 12, leaks=MIB).recorded(), None, 500), Card(200 * MIB), lambda _: None)


@pytest.fixture(scope="module")
def varies() -> LongVerdict:
    run = LongRun(varying(LENGTHS, empties=10, evaluates=15).recorded(), None, 300)
    return judge(run, Card(224 * MIB), lambda _: None)


def test_rows_of_a_leak(leaks: LongVerdict) -> None:
    found = dict(row for row in leaks.replay.rows() if row[0])
    assert found["replay"] == "500 steps; the first 12 as they were recorded"
    assert found["runs out"].startswith(f"at step {leaks.out.step}, by leak: asked for ")  # type: ignore[union-attr]
    assert found["not tried"].startswith("anything: the line under `kept by`")
    assert "tried" not in found


def test_rows_of_varying_lengths(varies: LongVerdict) -> None:
    found = list(varies.replay.rows())
    assert found[0] == (
        "replay",
        "300 steps of lengths 4 to 39 drawn from those recorded; the first 150 as they were recorded",
    )
    assert found[1] == ("", "steps, with an emptied cache every 10, evaluation every 15 steps")
    tried = [text for _, text in found[[name for name, _ in found].index("tried") :]]
    assert tried[0].startswith("expandable_segments:True: fits, ")


def test_rows_of_the_host() -> None:
    workers, loaders = Workers(2, 900 * MIB), [Loader("train.py:11", 2, 2, True)]
    host = HostMemory(700 * MIB, workers, 64 * MIB, loaders, 96 * MIB, [Pinned("train.py:12", 144 * MIB)])
    assert host.rows() == [
        ("host", "700 MiB of its own memory at the peak, without CUDA's libraries"),
        ("", "2 processes beside it: 900 MiB in all; 64 MiB of shared memory"),
        ("", "by a DataLoader at train.py:11: 2 workers, 2 batches each"),
        ("pinned", "96 MiB at the peak; train.py:12: 144 MiB in all"),
    ]
