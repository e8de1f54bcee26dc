"""The strategy: take apart what is independent, place greedily, and search where that is above the lower bound."""

import random
from dataclasses import dataclass

import numpy as np

from coopsim.planner.exact import FAILED, FOUND, Search
from coopsim.planner.fit import fit, height
from coopsim.planner.items import Ints, Items, lower_bound, quantum
from coopsim.planner.orders import Keys, luby
from coopsim.planner.sections import parts, sections

DEFAULT_WORK = 12_000_000  #: placements; half a minute for hundreds of items, where the bound is not met

_RESTART = 4_000  #: placements of the shortest search
_LARGEST = 2_500  #: items that are searched together; more are placed greedily
_GREEDY_ROUNDS = 24  #: disturbed greedy orders for those


@dataclass(frozen=True)
class Plan:
    """Offsets in bytes, one per item, and how good they are.

    `height` is the largest offset + size. `lower_bound` is the most bytes alive at once, `proven` the largest height
    below which the search has shown that nothing fits, at least the bound. `work` is the placements that were tried.
    """

    offset: Ints
    height: int
    lower_bound: int
    proven: int
    work: int

    @property
    def optimal(self) -> bool:
        """Whether no plan is lower, for certain."""
        return self.height <= self.proven


@dataclass
class _Leaf:
    """Items to be planned together (`index` in the whole), upon `base` bytes that lie under all of them."""

    items: Items
    index: Ints
    base: int
    offset: Ints
    height: int
    proven: int
    restarts: int = 0


def plan(items: Items, work: int = DEFAULT_WORK) -> Plan:
    """A plan for these items, the same for the same items and `work` (a limit of placements to try).

    Exact where the search ends within the work: then `optimal`. Otherwise the lowest plan found.
    """
    bound = lower_bound(items)
    leaves = _leaves(items)
    goal = max([bound, *(leaf.base + leaf.proven for leaf in leaves)])
    left = work
    while open_leaves := [leaf for leaf in leaves if leaf.base + leaf.height > goal]:
        before = left
        for k, leaf in enumerate(open_leaves):
            left -= _improve(leaf, goal - leaf.base, left // (len(open_leaves) - k))
            goal = max(goal, leaf.base + leaf.proven)
        if before - left < len(open_leaves):  # nothing left that could be tried
            break
    offset = np.zeros(len(items), np.int64)
    for leaf in leaves:
        offset[leaf.index] = leaf.base + leaf.offset
    return Plan(offset, height(items, offset), bound, goal, work - left)


def _leaves(items: Items) -> list[_Leaf]:
    """Independent groups of items, greedily placed.

    What is alive through the whole life of its group may lie at its bottom: what is below it in a plan can go above.
    The rest may fall apart again.
    """
    found: list[_Leaf] = []
    waiting = [(np.flatnonzero(items.bytes > 0), 0)]
    while waiting:
        chosen, base = waiting.pop()
        for part in parts(items[chosen]):
            index = chosen[part]
            group = items[index]
            time = sections(group)
            spanning = time.last - time.first == time.count
            shifts = np.lcm.reduce(group.alignment)
            spanning &= group.bytes % shifts == 0  # else what lies on it may fit worse
            if base % shifts == 0 and spanning.any():
                top = base + np.cumsum(group.bytes[spanning])
                for i, offset in zip(index[spanning], top - group.bytes[spanning], strict=True):
                    one = items[[i]]
                    found.append(_Leaf(one, np.array([i]), int(offset), np.zeros(1, np.int64), int(one.bytes[0]), 0))
                waiting.append((index[~spanning], int(top[-1])))
            else:
                found.append(_greedy(group, index, base))
    return found


def _greedy(items: Items, index: Ints, base: int) -> _Leaf:
    best, bound = np.zeros(0, np.int64), lower_bound(items)
    for order in Keys(items, sections(items)).greedy():
        for choice in (False, True):
            offset = fit(items, order, best=choice)
            if not len(best) or height(items, offset) < height(items, best):
                best = offset
            if height(items, best) == bound:
                break
    return _Leaf(items, index, base, best, height(items, best), bound)


def _improve(leaf: _Leaf, goal: int, work: int) -> int:
    """Bring a leaf down to `goal` or its own bound, whichever is higher, as far as `work` allows; what it took."""
    keys = Keys(leaf.items, sections(leaf.items))
    if len(leaf.items) > _LARGEST:
        return _shuffle(leaf, goal, work, keys)
    hunt = _Hunt(leaf, keys, work)
    step = quantum(leaf.items)
    while leaf.height > (aim := max(goal, leaf.proven)) and hunt.left > 0:
        low, target, share = aim - 1, aim, hunt.left // 4
        while leaf.height > max(goal, leaf.proven) and hunt.left > 0:
            if not hunt.below(target, max(share, 8 * _RESTART)):
                low = target
            if leaf.height - low <= max(step, aim >> 7):
                break
            target = (low + leaf.height) // 2 // step * step
            if target <= low:
                break
            share = hunt.left // 8
    return work - hunt.left


class _Hunt:
    """Searches with restarts: in three orders as they are, then in disturbed ones that put the blamed first.

    Every other one jumps: what is easy for one kind of search is hard for the other.
    """

    def __init__(self, leaf: _Leaf, keys: Keys, work: int) -> None:
        self.leaf, self.keys, self.left = leaf, keys, work
        self.search = Search(leaf.items, keys.sections)

    def below(self, target: int, share: int) -> bool:
        """Look for a plan of at most this height; false if there is none, or none was found with this share."""
        leaf, share = self.leaf, min(share, self.left)
        first = 0
        while share > 0:
            first += 1
            if first <= 3:
                order, limit = self.keys.order(first), 10 * _RESTART
            else:
                leaf.restarts += 1
                noise = random.Random(leaf.restarts)
                order, limit = self.keys.order(leaf.restarts, noise), luby(first - 3) * _RESTART
            limit = min(limit, share)
            outcome, used, offset, blame = self.search.below(target, order, limit, jump=first % 2 == 0)
            share -= used + 1
            self.left -= used + 1
            self.keys.blame = 0.9 * self.keys.blame + blame
            if outcome == FOUND:
                leaf.offset, leaf.height = offset, height(leaf.items, offset)
                return True
            if outcome == FAILED:
                leaf.proven = max(leaf.proven, target + 1)
                return False
        return False


def _shuffle(leaf: _Leaf, goal: int, work: int, keys: Keys) -> int:
    """Greedy orders, disturbed, with what reaches above the goal first: for more items than can be searched."""
    used = 0
    while leaf.height > max(goal, leaf.proven) and used < work and leaf.restarts < _GREEDY_ROUNDS:
        leaf.restarts += 1
        order = keys.order(leaf.restarts, random.Random(leaf.restarts))
        offset = fit(leaf.items, order, best=leaf.restarts % 2 == 1)
        used += len(leaf.items)
        keys.blame = 0.9 * keys.blame + (offset + leaf.items.bytes > goal)
        if height(leaf.items, offset) < leaf.height:
            leaf.offset, leaf.height = offset, height(leaf.items, offset)
    return used
