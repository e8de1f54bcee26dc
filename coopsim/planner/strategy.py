"""The strategy: take apart what is independent, place greedily, and search where that is above the lower bound."""

from dataclasses import dataclass

import numpy as np

from coopsim.planner.fit import fit, height
from coopsim.planner.hunt import RESTART, Hunt, Leaf
from coopsim.planner.items import Ints, Items, lower_bound, quantum
from coopsim.planner.orders import Keys
from coopsim.planner.sections import parts, sections

DEFAULT_WORK = 12_000_000  #: placements; half a minute for hundreds of items, where the bound is not met


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


def _leaves(items: Items) -> list[Leaf]:
    """Independent groups of items, greedily placed.

    What is alive through the whole life of its group may lie at its bottom: what is below it in a plan can go above.
    The rest may fall apart again.
    """
    found: list[Leaf] = []
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
                    found.append(Leaf(one, np.array([i]), int(offset), np.zeros(1, np.int64), int(one.bytes[0]), 0))
                waiting.append((index[~spanning], int(top[-1])))
            else:
                found.append(_greedy(group, index, base))
    return found


def _greedy(items: Items, index: Ints, base: int) -> Leaf:
    best, bound = np.zeros(0, np.int64), lower_bound(items)
    for order in Keys(items, sections(items)).greedy():
        for choice in (False, True):
            offset = fit(items, order, best=choice)
            if not len(best) or height(items, offset) < height(items, best):
                best = offset
            if height(items, best) == bound:
                break
    return Leaf(items, index, base, best, height(items, best), bound)


def _improve(leaf: Leaf, goal: int, work: int) -> int:
    """Bring a leaf down to `goal` or its own bound, whichever is higher, as far as `work` allows; what it took."""
    hunt = Hunt(leaf, work)
    step = quantum(leaf.items)
    while leaf.height > (aim := max(goal, leaf.proven)) and hunt.left > 0:
        low, target, share = aim - 1, aim, hunt.left // 4
        while leaf.height > max(goal, leaf.proven) and hunt.left > 0:
            if not hunt.below(target, max(share, 8 * RESTART)):
                low = target
            if leaf.height - low <= max(step, aim >> hunt.fine):
                break
            target = (low + leaf.height) // 2 // step * step
            if target <= low:
                break
            share = hunt.left // 8
    return work - hunt.left
