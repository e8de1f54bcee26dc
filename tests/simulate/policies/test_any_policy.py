"""Random stateful policies on random traces: sound, and the same replayed, called again, swept, and swept on."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopsim.simulate import allocators, policies
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import replay
from coopsim.study.sweep import Grid, sweep
from coopsim.study.validate import validate
from coopsim.trace import Trace
from tests.simulate.policies.anything import Anything
from tests.strategies import Dice, budget, dice, repeatable, traces
from tests.strategies import policies as points
from tests.study.sweep.tables import table


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@st.composite
def own(draw: st.DrawFn) -> Policy:
    """A class's policy at some point of the space."""
    roll = draw(dice(3))
    by, point = roll.pick(["regret", "score", "events", "next use"]), draw(points())
    mine = Anything(explore=roll.pick([0.0, 0.3, 1.0]), most=1 + roll.roll(3), by=by)
    return replace(point, name=policies.find(mine).name, own=mine)


def is_the_same_everywhere(trace: Trace, policy: Policy, roll: Dice, two: Executor) -> None:
    allocator = roll.pick(["arena", "arena", "counter", "cuda-caching"])
    steps = 1 + roll.roll(4) if repeatable(trace) else 1
    granule = allocators.find(allocator).granule
    size = budget(trace, granule, roll) + (allocator == "cuda-caching") * (roll.roll(4) << 21)
    seed = roll.roll(3)
    one, again = (replay(trace, policy, max(size, granule), allocator, steps=steps, seed=seed) for _ in range(2))
    assert validate(one, trace) == []
    assert one.rows() == again.rows()
    sizes = [f"{max(granule, n)}B" for n in (size, size + granule)]
    grid = Grid((trace,), (policy,), (allocator,), sizes, options={"steps": steps, "seed": [seed, seed + 1]})

    def cut(done: int, _total: int) -> None:
        if done == 2:
            raise InterruptedError

    with TemporaryDirectory() as folder:
        where = Path(folder)
        found = sweep(grid, where / "here")
        sweep(grid, where / "two", two)
        with pytest.raises(InterruptedError):
            sweep(grid, where / "cut", on_row=cut)
        sweep(grid, where / "cut")
        for name in ("two", "cut"):
            pd.testing.assert_frame_equal(table(where / "here"), table(where / name))
    row = found.iloc[0]
    assert (row.outcome, row.total_cost_ns, row.evictions) == tuple(
        one.header[key] for key in ("outcome", "total_cost_ns", "evictions")
    )


@settings(max_examples=30, deadline=None)
@given(traces(), own(), dice(8))
def test_is_the_same_everywhere(two: Executor, trace: Trace, policy: Policy, roll: Dice) -> None:
    is_the_same_everywhere(trace, policy, roll, two)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(traces(max_ops=60), own(), dice(8))
def test_two_thousand_are_the_same_everywhere(two: Executor, trace: Trace, policy: Policy, roll: Dice) -> None:
    is_the_same_everywhere(trace, policy, roll, two)
