"""Addresses for a planned step: sound around what is there, and found where one greedy order does not do."""

import numpy as np
import pytest

from coopsim.simulate.packing.items import Ints
from coopsim.simulate.planning import place as p
from coopsim.simulate.planning.dry_run_state import Q_BYTES, Q_COLUMNS, Q_FROM, Q_UNTIL
from tests.simulate.packing.instances import cut

FIXED = 2


def stays(count: int, seed: int, *, spare: float) -> tuple[Ints, Ints, int]:
    """Items that fill a rectangle; two more above it, apart from each other; their addresses; a budget with a hole."""
    items = cut(count, seed)
    side = int((items.bytes * (items.end - items.start)).sum()) // int(items.end.max())
    low = round(side * (1 + spare))
    found = np.zeros((FIXED + len(items), Q_COLUMNS), np.int64)
    found[:, Q_BYTES] = np.append([512, 512], items.bytes)
    found[:, Q_FROM] = np.append([0, 0], items.start)
    found[:, Q_UNTIL] = np.append([items.end.max()] * FIXED, items.end)
    return found, np.array([low, low + 1024]), low + 1536


def placed(of: Ints, fixed: Ints, budget: int) -> Ints | None:
    return p.place(of, np.arange(len(of)) < FIXED, fixed, budget)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_placed_is_sound(seed: int) -> None:
    """What is there stays; nothing is above the budget, or in the same place at the same time."""
    of, fixed, budget = stays(40, seed, spare=0.4)
    at = placed(of, fixed, budget)
    assert at is not None
    assert at[:FIXED].tolist() == fixed.tolist()
    assert (at >= 0).all()
    assert (at + of[:, Q_BYTES] <= budget).all()
    for i in range(len(of)):
        for j in range(i):
            in_time = of[i, Q_FROM] < of[j, Q_UNTIL] and of[j, Q_FROM] < of[i, Q_UNTIL]
            in_place = at[i] < at[j] + of[j, Q_BYTES] and at[j] < at[i] + of[i, Q_BYTES]
            assert not (in_time and in_place)


def test_other_orders_place_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two holes, nothing is searched for: only greedy orders count, those with what was too high first, too."""
    cases = [stays(40, seed, spare=0.15) for seed in range(60)]
    with_them = sum(placed(*case) is not None for case in cases)
    monkeypatch.setattr(p, "_REORDERINGS", 1)
    without = sum(placed(*case) is not None for case in cases)
    assert with_them >= 20
    assert without < with_them / 3


def test_what_leaves_gives_its_place() -> None:
    """An item that is there at the start and goes before another comes leaves its bytes to that."""
    found = np.zeros((3, Q_COLUMNS), np.int64)
    found[:, Q_BYTES] = [512, 512, 512]
    found[:, Q_FROM] = [0, 0, 4]
    found[:, Q_UNTIL] = [9, 4, 9]
    at = placed(found, np.array([0, 512]), 1024)
    assert at is not None
    assert at.tolist() == [0, 512, 512]
    found[1, Q_UNTIL] = 5
    assert placed(found, np.array([0, 512]), 1024) is None


@pytest.mark.parametrize("seed", range(6))
def test_what_lies_next_below(seed: int) -> None:
    """Against a look at all that is there when each begins."""
    rng = np.random.default_rng(seed)
    left, at = np.arange(60) + rng.integers(1, 20, 60), 512 * rng.permutation(60)
    there = [[j for j in range(k) if left[j] > k and at[j] < at[k]] for k in range(60)]
    wanted = [max(below, key=at.__getitem__, default=-1) for below in there]
    assert p.next_below(left, at).tolist() == wanted
