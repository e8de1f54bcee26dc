"""The strategy: split items into independent groups, place each greedily, and search where that is not optimal.

Plans some items around others that keep their offsets.
"""

from dataclasses import dataclass

import numpy as np

from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.hunt import RESTART, Attempt, Hunt, Leaf
from coopsim.simulate.packing.items import Ints, Items, lower_bound, quantum
from coopsim.simulate.packing.sections import Keys, parts, sections

DEFAULT_WORK = 12_000_000  #: placements; half a minute for hundreds of items, where the bound is not met


@dataclass(frozen=True)
class OffsetPlan:
    """Offsets in bytes, one per item, and how good they are.

    height: the largest offset + size. lower_bound: the largest number of bytes alive at once. proven: the largest
    height below which nothing fits, as the search has shown; at least the lower bound. work: the number of placements
    that were tried.
    """

    offset: Ints
    height: int
    lower_bound: int
    proven: int
    work: int

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan is lower."""
        return self.height <= self.proven


def plan(items: Items, work: int = DEFAULT_WORK) -> OffsetPlan:
    """Plan these items, with at most `work` placements. The same arguments give the same plan.

    The plan is `optimal` if the search ends within the work; otherwise it is the lowest that was found.
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
    return OffsetPlan(offset, height(items, offset), bound, goal, work - left)


def _leaves(items: Items) -> list[Leaf]:
    """Split items into independent groups, and place each greedily.

    An item that is alive as long as its group is goes to the bottom: what lies below it in a plan can go above it. The
    rest of the group may then fall apart into further groups.
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
    """Lower a leaf's plan to `goal` or to its own bound, whichever is higher, within `work`; return the work used."""
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


_ATTEMPTS = 4  #: for each height
_HIGHER = (0, 256, 64, 16, 4)  #: heights that are tried: the bound (0), and the bound plus its 256th, 64th, … part


def plan_around(items: Items, given: Ints, work: int) -> tuple[Ints | None, int]:
    """Find offsets for the items whose `given` offset is -1; the others keep theirs.

    work: a limit on the placements that are tried. Returns the offsets of all items, in bytes, and the work that was
    used; no offsets (None) if the work finds no plan up to a quarter above the lower bound. The same arguments give the
    same plan.
    """
    kept = given >= 0
    bound = max(lower_bound(items), height(items[kept], given[kept]) if kept.any() else 0)
    keys = Keys(items, sections(items))
    left = work
    for number in range(_ATTEMPTS * len(_HIGHER)):
        part = _HIGHER[number // _ATTEMPTS]
        attempt = Attempt(keys, bound + (bound // part if part else 0), number % _ATTEMPTS, given)
        if attempt.run(max(left // 4, 1)):
            return attempt.offset, work - left + attempt.used
        left -= attempt.used
        if left <= 0:
            break
    return None, work - left
