"""A hole in an arena: what was used longest ago goes until enough is free, then what lies side by side."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.arena.cap import ArenaCap
from tests.live.made_up import KIB, Blocks, made, parts
step = parts(64 * KIB)
spilled = step.context.values.spilled
storages = [made(step, KIB, used) for used in (3, 1, 2)]
at = [super(torch.UntypedStorage, one.ref()).data_ptr() for one in storages]
base, end = min(at), max(at) + KIB
arena = Blocks(base, end - base, [(a - base, KIB) for a in at], wanted=KIB)
evicted = lambda: [tracked.evicted for tracked in storages]
def hole(protected=()): return ArenaCap(arena).make_hole(spilled, protected)
"""


def test_the_oldest_go_until_enough_is_free(child: Runner) -> None:
    text = """
arena.stats.allocated = arena.stats.size
answer([hole(), evicted()])
"""
    assert child(IMPORT + text) == [True, [False, True, False]]


def test_where_enough_is_free_neighbours_go(child: Runner) -> None:
    """With the fewest bytes of all of them together; none of those that have to stay."""
    text = """
storages[1].pinned = True
found = [hole(), evicted()]
arena.stats.wanted = 1 << 40
answer([*found, hole(), evicted()])
"""
    first, evicted, second, after = child(IMPORT + text)
    assert first
    assert evicted in ([True, False, False], [False, False, True])
    assert second  # nothing is enough: one at a time goes
    assert after == [True, False, True]


def test_there_is_an_end(child: Runner) -> None:
    assert child(IMPORT + "answer([hole(storages), evicted()])") == [False, [False] * 3]


def test_the_cheapest_neighbours_span_the_request(child: Runner) -> None:
    text = """
from coopsim.live.arena.cap import cheapest
layout = [(0, 10), (10, 10), (30, 5), (40, 10), (60, 40)]
price = {0: 9.0, 10: 2.0, 30: 3.0, 40: 4.0}
answer([cheapest(layout, price, nbytes, 100) for nbytes in (20, 25, 26, 61)])
"""
    assert child(text) == [[10], [40], [10, 30], []]  # with the gaps behind them
