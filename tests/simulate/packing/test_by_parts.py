"""Plans of more items than are searched at once, and plans around items that keep their offsets."""

import numpy as np
import pytest

from coopsim.simulate.packing import Items, plan
from coopsim.simulate.packing.items import lower_bound
from coopsim.simulate.packing.strategy import DEFAULT_WORK, plan_around


def random_items(n: int, seed: int) -> Items:
    """Sizes of up to 4 KiB in steps of 512 B, lives of up to 60 moments."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, n, n)
    return Items.of(512 * rng.integers(1, 9, n), start, start + rng.integers(1, 60, n), np.full(n, 512))


def check(items: Items, offset: np.ndarray) -> None:
    """No two share bytes while both are alive, and all are aligned."""
    assert (offset >= 0).all()
    assert (offset % items.alignment == 0).all()
    order = np.argsort(items.start, kind="stable")
    alive: list[int] = []
    for i in order.tolist():
        alive = [j for j in alive if items.end[j] > items.start[i]]
        assert all(offset[i] + items.bytes[i] <= offset[j] or offset[j] + items.bytes[j] <= offset[i] for j in alive), i
        alive.append(i)


@pytest.mark.parametrize("n", [1500, 3000])
def test_more_than_a_part(n: int) -> None:
    """The bound is met, in a fraction of the work, and twice in the same way."""
    items = random_items(n, 7)
    found, again = plan(items), plan(items)
    check(items, found.offset)
    assert found.optimal
    assert found.height == lower_bound(items)
    assert found.work < DEFAULT_WORK // 10
    assert (again.offset == found.offset).all()
    assert again.work == found.work


def test_work_is_a_limit() -> None:
    items = random_items(3000, 8)
    little = plan(items, work=2000)
    check(items, little.offset)
    assert little.work < 20_000
    assert little.height >= plan(items).height


@pytest.mark.parametrize("seed", range(5))
def test_around_what_keeps_its_offset(seed: int) -> None:
    """Half of a plan is given; the rest finds places around it, and what is given stays where it was."""
    items = random_items(400, seed)
    given = plan(items).offset.copy()
    free = np.random.default_rng(seed).random(400) < 0.5
    given[free] = -1
    offset, work = plan_around(items, given, 300_000)
    assert offset is not None
    check(items, offset)
    assert (offset[~free] == given[~free]).all()
    assert 0 < work <= 300_000 + 10_000
    assert (offset + items.bytes).max() <= 1.25 * lower_bound(items)


def test_none_where_nothing_fits_nearby() -> None:
    """What is given leaves two holes of one unit each; an item of two lies above it all, too high."""
    items = Items.of([1, 1, 2], [0, 0, 0], [1, 1, 1])
    offset, _ = plan_around(items, np.array([1, 3, -1]), 1000)
    assert offset is None
