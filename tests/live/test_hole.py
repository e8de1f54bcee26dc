"""Address ranges that are freed in an arena: send values until enough is free, then move; else send side by side."""

from tests.conftest import Runner

IMPORT = """
from coopsim.live.arena.hole import Hole
from tests.live.made_up import KIB, Blocks, made, parts
step = parts(64 * KIB)
context = step.context
storages = [made(step, KIB, used) for used in (3, 1, 2)]
at = [Blocks(int, list).offset(tracked.ref()) for tracked in storages]
def first(movable): return [(min(set(movable) & set(at)), 0)]
def hole(missing, cheapest=lambda price: [], moves=lambda movable: [], planned=tuple):
    blocks = Blocks(missing, cheapest, moves)
    return blocks, Hole(blocks, context.residency, context.storages, lambda: context.values.spilled, planned)
evicted = lambda: [tracked.evicted for tracked in storages]
"""


def test_the_oldest_go_until_enough_is_free(child: Runner) -> None:
    text = """
blocks, found = hole(lambda: KIB - sum(evicted()) * KIB, moves=first)
made = found.made([], 0)
there = [one.evicted or blocks.offset(one.ref()) == a for one, a in zip(storages, at)]
answer([made, evicted(), blocks.taken, sum(there)])
"""
    assert child(IMPORT + text) == [True, [False, True, False], [0], 2]  # one is empty, and one has moved


def test_where_moves_do_not_help_neighbours_go(child: Runner) -> None:
    """With the fewest bytes of all of them together, which the arena knows; none of those that have to stay."""
    text = """
prices = []
def cheapest(price):
    prices.append(sorted(at.index(a) for a in price if a in at))
    return [at[0], at[2]]
storages[1].pinned = True
blocks, found = hole(lambda: 0, cheapest)
answer([found.made([], 0), evicted(), prices, blocks.taken])
"""
    assert child(IMPORT + text) == [True, [True, False, True], [[0, 2]], []]


def test_after_some_moves_for_one_op_none_are_made(child: Runner) -> None:
    text = """
blocks, found = hole(lambda: 0, moves=first)
answer([found.made([], 7), blocks.taken, found.made([], 8), blocks.taken, sum(evicted())])
"""
    moved, taken, evicted, after, evicted = child(IMPORT + text)
    assert moved
    assert evicted
    assert taken == after == [0]
    assert evicted == 1


def test_blocks_of_a_planned_step_move_too(child: Runner) -> None:
    text = """
second = lambda movable: [(a, 4096) for a in movable if a == at[1]]
context.storages._there.clear()
blocks, found = hole(lambda: 0, moves=second, planned=lambda: storages)
answer([found.made([], 0), blocks.taken])
"""
    assert child(IMPORT + text) == [True, [4096]]


def test_there_is_an_end(child: Runner) -> None:
    text = """
answer([hole(lambda: KIB)[1].made(context.storages.there(), 0), evicted()])
"""
    assert child(IMPORT + text) == [False, [False] * 3]
