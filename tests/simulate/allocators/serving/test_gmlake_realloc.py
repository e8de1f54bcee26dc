"""GMLake's `realloc`: as released, and the saner rule."""

import random

import pytest

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators.serving.gmlake import GIB, GMLake, GmlakeOptions
from coopsim.simulate.allocators.serving.result import ServingOutOfMemory
from tests.simulate.allocators.serving.lake import MIB, check, islands, lake, mib, refused, reserved


def pieces(g: GMLake, *sizes: int) -> None:
    """Free runs of so many MiB, each in a segment of which the rest is in use, so that none goes back."""
    whole = [g.take((size + 12) * MIB) for size in sizes]
    for size, block in zip(sizes, whole, strict=True):
        g.give_back(block)
        block = g.take(size * MIB)
        g.take(12 * MIB)
        g.give_back(block)


def test_realloc_makes_small_deficits_as_large_as_small_segments() -> None:
    for missing, made in ((4, 20), (8, 20), (10, 10), (12, 12)):
        g = lake(realloc=True)
        islands(g, 40, 30)
        before = reserved(g)
        assert sum(mib(g.take((70 + missing) * MIB))) == 70 + missing
        assert (reserved(g) - before, g.count["stitches"]) == (made, 1)
        g = lake(realloc=True, exact_deficit=True)
        islands(g, 40, 30)
        before = reserved(g)
        g.take((70 + missing) * MIB)
        assert reserved(g) - before == missing


def test_realloc_serves_from_what_it_makes_alone_if_that_is_enough() -> None:
    g = lake(realloc=True, frag_limit=2 * MIB)
    islands(g, 10)
    before = reserved(g)
    assert mib(g.take(16 * MIB)) == [16]
    assert (reserved(g) - before, g.count["stitches"]) == (20, 0)


def test_realloc_refuses_below_the_limit_what_would_fit() -> None:
    """28 MiB are made, cannot be stitched to the 18, go back, and are made again. They stay."""
    g = lake(realloc=True)
    g.take(2 * MIB)
    assert refused(g, 46 * MIB)
    assert (reserved(g), g.meter.device_allocs, g.meter.device_frees) == (48, 3, 1)
    g = lake(realloc=True, exact_deficit=True)
    g.take(2 * MIB)
    assert mib(g.take(46 * MIB)) == [46]
    assert reserved(g) == 66


def test_realloc_refuses_where_there_is_enough_in_pieces() -> None:
    for options, expected in (({}, True), ({"exact_deficit": True}, False)):
        g = lake(realloc=True, **options)
        pieces(g, 30, 30)
        assert refused(g, 50 * MIB) == expected


def test_realloc_stitches_at_level_four() -> None:
    for level, expected in ((4, False), (5, True)):
        g = lake(realloc=True, defrag_level=level)
        pieces(g, 40, 30)
        assert refused(g, 100 * MIB) == expected


def test_the_saner_rule_needs_realloc() -> None:
    with pytest.raises(CoopsimError, match=r"exact_deficit changes what realloc does; set realloc, too"):
        GmlakeOptions(exact_deficit=True)


@pytest.mark.parametrize("seed", range(20))
def test_invariants_of_the_released_realloc(seed: int) -> None:
    dice = random.Random(seed)
    g = lake(
        frag_limit=dice.choice([2, 16, 40]) * MIB,
        auto_gc=dice.choice([0, 100 * MIB, 1000 * GIB]),
        realloc=True,
        memory=dice.choice([None, 300 * MIB]),
    )
    held = []
    for _ in range(250):
        if held and dice.random() < 0.45:
            g.give_back(held.pop(dice.randrange(len(held))))
        if dice.random() < 0.03:
            g.empty_cache()
        try:
            held.append(g.take(2 * dice.choice([1, 2, 3, 5, 8, 20]) * MIB, dice.randrange(2)))
        except ServingOutOfMemory:
            continue
        if dice.random() < 0.1:
            g.record_stream(held[-1], 2)
        check(g, held)
