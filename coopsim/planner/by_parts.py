"""Search by parts: where items are too many for one search, part after part, around what the parts before it hold.

The most crowded moment comes first, with the items that are nearest to it in time, then what is left. A part that does
not fit is searched again together with its neighbours, more of them each time; an attempt ends when that has failed too
often, and the next one has parts of another size, or goes from the first one outwards.
"""

import random

import numpy as np

from coopsim.planner.exact import FOUND, Search
from coopsim.planner.items import Ints
from coopsim.planner.obstacles import obstacles
from coopsim.planner.orders import Keys
from coopsim.planner.sections import sections

SIZES = (1000, 500, 2000, 700, 1400)  #: items of a part, in attempts that follow each other

_TRIES = 6  #: searches of a part, in orders of their own
_FAILURES = 6  #: of parts, after which an attempt ends
_RESTART = 4_000  #: placements of a search of a part, at least


def weight(items: int) -> int:
    """Work of a placement among so many items (and obstacles): what each costs grows with their number."""
    return max(1, items // 500)


class Attempt:
    """One attempt to place all items below `target`. `offset` is -1 for what is not placed; `used` the work it took.

    given: offsets of items that keep them, and -1 for the others.
    """

    def __init__(self, keys: Keys, target: int, number: int, given: Ints | None = None) -> None:
        self.items, self.keys, self.target, self.number = keys.items, keys, target, number
        self.size = SIZES[number % len(SIZES)]
        self.noise = random.Random(number)
        self.offset = np.full(len(self.items), -1) if given is None else given.copy()
        self.movable = self.offset < 0
        self.used = self.failures = 0
        self.middle = keys.items.start + keys.items.end  # twice as late as that
        self.first = int(self.middle[np.argmax(keys.contention)])

    def run(self, limit: int) -> bool:
        """Place the parts; false if the attempt fails, or has not ended within this work."""
        while self.failures < _FAILURES and self.used < limit:
            waiting = np.flatnonzero(self.offset < 0)
            if not len(waiting):
                return True
            part = np.sort(self._part(waiting))
            self.failures += -1 if self._place(part, limit) else 1
            self.failures = max(self.failures, 0)
        return False

    def _part(self, waiting: Ints) -> Ints:
        """What is placed next, and after failures some of what is placed already."""
        chosen = self._outwards(waiting) if self.number % 2 else self._crowded(waiting)
        if not self.failures:
            return chosen
        placed = np.flatnonzero(self.movable & (self.offset >= 0))
        centre = int(self.items.start[chosen].min() + self.items.end[chosen].max())
        near = np.argsort(np.abs(self.middle[placed] - centre), kind="stable")
        return np.concatenate([chosen, placed[near[: self.size * self.failures // 2]]])

    def _crowded(self, waiting: Ints) -> Ints:
        """The items nearest to the one that is alive with the most bytes."""
        items = self.items
        one = waiting[np.argmax(self.keys.contention[waiting])]
        start, end = items.start[waiting], items.end[waiting]
        apart = np.maximum(np.maximum(start - items.end[one], items.start[one] - end), 0)
        beyond = np.maximum(np.maximum(items.start[one] - start, end - items.end[one]), 0)
        return waiting[np.argsort(2 * apart + beyond, kind="stable")[: self.size]]

    def _outwards(self, waiting: Ints) -> Ints:
        """The next items after the first part or before it, whichever are more crowded."""
        if len(waiting) == np.count_nonzero(self.movable):
            return self._crowded(waiting)
        later = self.middle[waiting] >= self.first
        after, before = waiting[later], waiting[~later]
        after = after[np.argsort(self.items.start[after], kind="stable")[: self.size]]
        before = before[np.argsort(-self.items.end[before], kind="stable")[: self.size]]
        sides = (self.keys.contention[side].max(initial=-1) for side in (after, before))
        return after if next(sides) >= next(sides) else before

    def _place(self, chosen: Ints, limit: int) -> bool:
        """Search places for a part around what is placed and not in it."""
        part = self.items[chosen]
        others = self.offset >= 0
        others[chosen] = False
        others &= (self.items.start < part.end.max()) & (self.items.end > part.start.min())
        keys = Keys(part, sections(part))
        around = obstacles(part, keys.sections, self.items[others], self.offset[others])
        search = Search(part, keys.sections, around)
        each = weight(len(part) + int(others.sum()))
        for k in range(_TRIES):
            disturbed = k >= 3 or self.number > 0
            order = keys.order(k, self.noise if disturbed else None)
            most = min(max(_RESTART, 4 * len(part)), (limit - self.used) // each)
            outcome, placements, offset, blame = search.below(self.target, order, most, jump=k % 2 == 0)
            self.used += placements * each + 1
            keys.blame = 0.9 * keys.blame + blame
            if outcome == FOUND:
                self.offset[chosen] = offset
                return True
        return False
