"""Plans are sound, no higher than they must be where that can be known, and the same every time."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopsim.simulate.packing import Items, OffsetPlan, PlanError, lower_bound, plan
from coopsim.simulate.packing.exact import FAILED, FOUND, GAVE_UP, ExactSearch
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.minimalloc import read
from coopsim.simulate.packing.sections import Keys, parts, sections
from coopsim.study.validate.plan import plan_faults
from tests.simulate.packing.instances import cut, least_height

DATA = os.environ.get("COOPSIM_MINIMALLOC_DATA", "")
#: MiniMalloc's instances of which the optimum is known; of D and J, what its own search reached.
MINIMALLOC = dict.fromkeys("ABEFGHIK", 1048576) | {"C": 1039360, "D": 1048576, "J": 1048576}


def judge(items: Items, found: OffsetPlan) -> list[str]:
    columns = (items.bytes, items.start, items.end, items.alignment, found.offset)
    return plan_faults(*(column.tolist() for column in columns), found.height)


@st.composite
def few_items(draw: st.DrawFn) -> Items:
    n = draw(st.integers(1, 6))
    rows = [
        (draw(st.integers(0, 4)), (a := draw(st.integers(0, 6))), a + draw(st.integers(1, 4)), draw(st.integers(1, 3)))
        for _ in range(n)
    ]
    return Items.of(*zip(*rows, strict=True))


@given(few_items())
@settings(max_examples=300, deadline=None)
def test_no_plan_of_few_items_is_lower(items: Items) -> None:
    """Against every offset of every item."""
    found = plan(items)
    assert judge(items, found) == []
    assert found.optimal
    assert found.height == least_height(items)
    assert found.lower_bound <= found.proven == found.height


def test_many_random_instances() -> None:
    """The same, for many more, without alignments, in which more items meet."""
    for seed in range(400):
        dice = random.Random(seed)
        rows = [(dice.randint(1, 4), a := dice.randint(0, 5), a + dice.randint(1, 5)) for _ in range(7)]
        items = Items.of(*zip(*rows, strict=True))
        found = plan(items)
        assert judge(items, found) == []
        assert found.height == least_height(items), seed


@pytest.mark.parametrize(
    ("count", "seed"), [(20, 0), (40, 1), (80, 2), (150, 1), (150, 5), (150, 6), (210, 0), (300, 1)]
)
def test_cut_rectangles(count: int, seed: int) -> None:
    items = cut(count, seed)
    found = plan(items)
    assert judge(items, found) == []
    assert (found.height, found.lower_bound, found.optimal) == (1 << 20, 1 << 20, True)


@pytest.mark.skipif(not DATA, reason="COOPSIM_MINIMALLOC_DATA names no folder of MiniMalloc's instances")
@pytest.mark.parametrize("name", sorted(MINIMALLOC))
def test_minimalloc(name: str) -> None:
    file = Path(DATA) / f"{name}.1048576.csv"
    if not file.exists():
        pytest.skip(f"{file.name} is not in COOPSIM_MINIMALLOC_DATA")
    items = read(file).items
    found = plan(items)
    assert judge(items, found) == []
    assert found.height <= MINIMALLOC[name]


def test_the_same_plan_every_time() -> None:
    items = cut(60, 3)
    first, second = plan(items), plan(items)
    assert np.array_equal(first.offset, second.offset)
    assert first.work == second.work


def test_work_is_a_limit() -> None:
    items = cut(400, 0)
    found = plan(items, 20_000)
    assert judge(items, found) == []
    assert found.work <= 20_000 + 1
    assert not found.optimal
    none = plan(items, 0)
    assert judge(items, none) == []
    assert (none.work, none.lower_bound) == (0, 1 << 20)
    assert none.height >= found.height


def test_a_height_above_the_bound_is_proven() -> None:
    """Two of 3 bytes at multiples of 4: the bound does not count the byte between them, the search does."""
    items = Items.of([3, 3], [0, 0], [1, 1], [4, 4])
    found = plan(items)
    assert (found.height, found.lower_bound, found.proven, found.optimal) == (7, 6, 7, True)


def test_nothing_and_next_to_nothing() -> None:
    nothing = plan(Items.of([], [], []))
    assert (nothing.height, nothing.lower_bound, nothing.optimal) == (0, 0, True)
    found = plan(Items.of([0, 5, 0], [0, 0, 0], [1, 1, 9]))
    assert (found.height, found.optimal) == (5, True)


def test_what_lives_throughout_lies_at_the_bottom() -> None:
    """It does not keep the rest from falling apart."""
    items = Items.of([7, 4, 4], [0, 0, 5], [9, 5, 9])
    assert plan(items).offset.tolist() == [0, 7, 7]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (([-1], [0], [1]), "item 0 has a negative size (-1)"),
        (([1, 1], [0, 3], [1, 3]), "item 1 has an end that is not after its start (3)"),
        (([1], [0], [1], [0]), "item 0 has an alignment below 1 (0)"),
        (([1 << 61] * 5, [0] * 5, [1] * 5), "more than 4 EiB"),
    ],
)
def test_bad_items(rows: tuple[list[int], ...], says: str) -> None:
    with pytest.raises(PlanError) as e:
        Items.of(*rows)
    assert says in str(e.value)


def test_sections_are_the_largest_sets() -> None:
    items = Items.of([1] * 4, [0, 1, 3, 4], [2, 4, 5, 6])
    found = sections(items)
    assert (found.first.tolist(), found.last.tolist(), found.count) == ([0, 0, 1, 2], [1, 2, 3, 3], 3)


def test_parts_do_not_meet() -> None:
    items = Items.of([1] * 4, [5, 0, 2, 8], [7, 2, 4, 9])
    assert sorted(part.tolist() for part in parts(items)) == [[0], [1], [2], [3]]
    joined = Items.of([1] * 4, [5, 0, 1, 8], [7, 2, 6, 9])
    assert sorted(part.tolist() for part in parts(joined)) == [[0, 1, 2], [3]]


@given(few_items())
@settings(max_examples=50, deadline=None)
def test_greedy_is_sound(items: Items) -> None:
    for best in (False, True):
        for order in Keys(items, sections(items)).greedy():
            offset = fit(items, order, best=best)
            assert judge(items, OffsetPlan(offset, height(items, offset), lower_bound(items), 0, 0)) == []


@given(few_items(), st.integers(0, 12), st.booleans())
@settings(max_examples=300, deadline=None)
def test_greedy_that_ends_early_says_the_same(items: Items, below: int, best: bool) -> None:
    """Below a height all offsets are those of the whole, or something is above it."""
    order = Keys(items, sections(items)).order(0)
    whole, part = (fit(items, order, best=best, **limit) for limit in ({}, {"below": below}))
    if height(items, whole) <= below:
        assert part.tolist() == whole.tolist()
    else:
        assert height(items, part) > below


def test_search_says_how_it_ended() -> None:
    items = cut(20, 0)
    search, order = ExactSearch(items, sections(items)), np.arange(len(items))
    outcome, _, offset, _ = search.below(1 << 20, order, 10**6)
    assert outcome == FOUND
    assert height(items, offset) == 1 << 20
    assert search.below((1 << 20) - 1, order, 10**6)[0] == FAILED
    assert search.below(1 << 20, order, 3)[:2] == (GAVE_UP, 3)
    outcome, _, offset, _ = search.below(1 << 20, order, 10**6, jump=True)
    assert outcome == FOUND
    assert height(items, offset) == 1 << 20
    assert search.below((1 << 20) - 1, order, 10**6, jump=True)[0] in (FAILED, GAVE_UP)


def test_the_judge_sees_faults() -> None:
    def faults(offsets: list[int], height: int = 8) -> list[str]:
        return plan_faults([4, 4, 4], [0, 1, 2], [2, 3, 4], [1, 2, 4], offsets, height)

    assert faults([0, 4, 0]) == []
    assert faults([0, 2, 4]) == [f"items {a} overlap while both are alive" for a in ("0 and 1", "1 and 2")]
    assert faults([0, 4, 0], 7) == ["item 1 at 4 + 4 is outside of 0 to 7"]
    assert "item 2 at 2 is not aligned to 4" in faults([0, 6, 2], 10)
    assert faults([-1, 4, 0])[0] == "item 0 at -1 + 4 is outside of 0 to 8"
    assert faults([0, 4]) == ["2 offsets for 3 items"]
