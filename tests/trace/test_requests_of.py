"""Requests of a trace: no less than what lives at once, no more than the layout of its start."""

import dataclasses

import pytest

from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests_of import of_trace
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["bert-large", "unet", "spos"])
def test_least_that_is_needed(name: str) -> None:
    """What lives at once, with the workspaces of libraries that a trace knows only as part of its start."""
    trace = load(ROOT / "traces" / f"{name}.parquet")
    workspaces = sum(size for _, held in trace.header["memory_at_start"] for size, holds in held if holds == -2)
    live = peak_bytes(trace, 1)
    assert live <= of_trace(trace).peak_bytes() <= live + workspaces + (2 << 20)


def test_start_is_what_is_missing(bert: Trace) -> None:
    requests = of_trace(bert)
    answers, _ = CachingAllocator("2.15.0", "", 1 << 30).run(requests.rows)
    first = next(i for i, row in enumerate(requests.rows.tolist()) if row[KIND] == ALLOCATE and answers[i] < 0)
    assert first < requests.prologue
    assert requests.labels[requests.rows[first, 1]] in ("what is there at the start", "parameter", "gradient", "input")


def test_iterations_follow_each_other(bert: Trace) -> None:
    once, twice = of_trace(bert), of_trace(bert, iterations=2)
    assert twice.prologue == once.prologue
    assert len(twice) - twice.prologue == 2 * (len(once) - once.prologue)
    assert once.peak_bytes() == twice.peak_bytes()


def test_what_the_layout_lacks_is_there_all_the_same(bert: Trace) -> None:
    """As a scalar that PyTorch makes on the GPU past the dispatcher, and that the recorder meets in an op."""
    freed = set(bert.freed.tolist())
    lost = next(s for s in bert.alive_at_start.nonzero()[0].tolist() if s not in freed)
    layout = [
        [total, [[size, -2 if s == lost else s] for size, s in held]] for total, held in bert.header["memory_at_start"]
    ]
    short = of_trace(dataclasses.replace(bert, header=dict(bert.header) | {"memory_at_start": layout}))
    whole = of_trace(bert)
    assert len(short) == len(whole) + 1
    assert short.peak_bytes() == whole.peak_bytes() + int(bert.bytes[lost])
