"""Searches for a plan below a height, one after the other: of all items together, or, where these are many, by parts.

Each part is placed around those before it. The first part is the most crowded moment with the items nearest to it in
time. A part that does not fit is searched again together with its neighbours, more of them each time. An attempt ends
when that has failed too often; the next one has parts of another size, or works outwards from the first part.
"""

import random
from dataclasses import dataclass

import numpy as np

from coopsim.simulate.packing.exact import FAILED, FOUND, GAVE_UP, ExactSearch
from coopsim.simulate.packing.fit import height
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.obstacles import obstacles
from coopsim.simulate.packing.sections import Keys, count_pairs, luby, sections

SIZES = (1000, 500, 2000, 700, 1400)  #: items per part, in successive attempts

_TRIES = 6  #: searches per part, each in another order
_FAILURES = 6  #: parts that failed, less those that were placed, after which an attempt ends
_RESTART = 4_000  #: the least limit of placements of one search
RESTART = 4_000  #: placements of the shortest search

_MOST_PAIRS = 1 << 24  #: pairs of items alive together up to which all are searched at once, with a row per pair


def weight(items: int) -> int:
    """The work of one placement among so many items and obstacles, with whose number its cost grows."""
    return max(1, items // 500)


class Attempt:
    """One attempt to place all items below the height `target`, in bytes.

    number: of the attempt, which sets the size and the order of its parts. given: offsets of items that keep them, and
    -1 for the others. offset: of each item, in bytes; -1 while it is not placed. used: the work so far.
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
        """Place all parts. False if the attempt fails, or does not end within this work."""
        while self.failures < _FAILURES and self.used < limit:
            waiting = np.flatnonzero(self.offset < 0)
            if not len(waiting):
                return True
            part = np.sort(self._part(waiting))
            self.failures += -1 if self._place(part, limit) else 1
            self.failures = max(self.failures, 0)
        return False

    def _part(self, waiting: Ints) -> Ints:
        """The numbers of the items to place next; after failures, with some that are placed already."""
        chosen = self._outwards(waiting) if self.number % 2 else self._crowded(waiting)
        if not self.failures:
            return chosen
        placed = np.flatnonzero(self.movable & (self.offset >= 0))
        centre = int(self.items.start[chosen].min() + self.items.end[chosen].max())
        near = np.argsort(np.abs(self.middle[placed] - centre), kind="stable")
        return np.concatenate([chosen, placed[near[: self.size * self.failures // 2]]])

    def _crowded(self, waiting: Ints) -> Ints:
        """Of the waiting items, those nearest in time to the one that is alive with the most bytes."""
        items = self.items
        one = waiting[np.argmax(self.keys.contention[waiting])]
        start, end = items.start[waiting], items.end[waiting]
        apart = np.maximum(np.maximum(start - items.end[one], items.start[one] - end), 0)
        beyond = np.maximum(np.maximum(items.start[one] - start, end - items.end[one]), 0)
        return waiting[np.argsort(2 * apart + beyond, kind="stable")[: self.size]]

    def _outwards(self, waiting: Ints) -> Ints:
        """The next waiting items after the first part, or before it, whichever are more crowded."""
        if len(waiting) == np.count_nonzero(self.movable):
            return self._crowded(waiting)
        later = self.middle[waiting] >= self.first
        after, before = waiting[later], waiting[~later]
        after = after[np.argsort(self.items.start[after], kind="stable")[: self.size]]
        before = before[np.argsort(-self.items.end[before], kind="stable")[: self.size]]
        sides = (self.keys.contention[side].max(initial=-1) for side in (after, before))
        return after if next(sides) >= next(sides) else before

    def _place(self, chosen: Ints, limit: int) -> bool:
        """Place a part around the placed items that are not in it. False if no search found offsets."""
        part = self.items[chosen]
        others = self.offset >= 0
        others[chosen] = False
        others &= (self.items.start < part.end.max()) & (self.items.end > part.start.min())
        keys = Keys(part, sections(part))
        around = obstacles(part, keys.sections, self.items[others], self.offset[others])
        search = ExactSearch(part, keys.sections, around)
        each = weight(len(part) + int(others.sum()))
        for k in range(_TRIES):
            disturbed = k >= 3 or self.number > 0
            order = keys.order(k, self.noise if disturbed else None)
            most = min(max(_RESTART, 4 * len(part)), (limit - self.used) // each)
            outcome, placements, offset, blame = search.below(self.target, order, most, jump=k % 2 == 0)
            self.used += placements * each + 1
            keys.add_blame(blame)
            if outcome == FOUND:
                self.offset[chosen] = offset
                return True
        return False


@dataclass
class Leaf:
    """Items that are planned together, above `base` bytes that lie under all of them.

    index: their numbers among all items. offset, height: the best plan so far, in bytes above the base. proven: the
    largest height below which nothing fits. restarts, attempts: searches made so far, of all items and by parts.
    """

    items: Items
    index: Ints
    base: int
    offset: Ints
    height: int
    proven: int
    restarts: int = 0
    attempts: int = 0


class Hunt:
    """A series of searches with restarts, which improves the plan of one leaf.

    The first three try the orders as they are; the others disturb these, and put items first that were blamed for
    failures. Every other search jumps: what is easy for one kind of search is hard for the other. If there are more
    items than a part has, attempts by parts take turns with searches of all. left: the work left, in placements.
    """

    def __init__(self, leaf: Leaf, work: int) -> None:
        n = len(leaf.items)
        self.leaf, self.left = leaf, work
        self.keys = Keys(leaf.items, sections(leaf.items))
        self.by_parts, self.weight = n > SIZES[0], weight(n)
        self.fine = 10 if self.by_parts else 7
        self.restart = max(RESTART, n * 3 // 2)
        whole = not self.by_parts or count_pairs(self.keys.sections) <= _MOST_PAIRS
        self.search = ExactSearch(leaf.items, self.keys.sections) if whole else None

    def below(self, target: int, share: int) -> bool:
        """Look for a plan whose height is at most `target`, with this share of the work. False if none was found."""
        end = self.left - min(share, self.left)
        number = of_all = of_parts = 0
        while (left := self.left - end) > 0:
            if self.by_parts and of_parts < of_all:
                if self._parts(target, left):
                    return True
                of_parts += left - (self.left - end)
                continue
            number += 1
            outcome = self._all(target, number, left)
            if outcome != GAVE_UP:
                return outcome == FOUND
            of_all += left - (self.left - end)
        return False

    def _parts(self, target: int, limit: int) -> bool:
        leaf = self.leaf
        attempt = Attempt(self.keys, target, leaf.attempts)
        leaf.attempts += 1
        done = attempt.run(limit)
        self.left -= attempt.used + 1
        if done:
            leaf.offset, leaf.height = attempt.offset, height(leaf.items, attempt.offset)
        return done

    def _all(self, target: int, number: int, limit: int) -> int:
        """The `number`-th search of all items below a target: FOUND, FAILED or GAVE_UP."""
        leaf = self.leaf
        if self.search is None:
            self.left -= 1
            return GAVE_UP
        if number <= 3:
            order, most = self.keys.order(number), (1 if self.by_parts and number == 1 else 10) * self.restart
        else:
            leaf.restarts += 1
            noise = random.Random(leaf.restarts)
            order, most = self.keys.order(leaf.restarts, noise), luby(number - 3) * self.restart
        most = min(most, -(-limit // self.weight))
        outcome, used, offset, blame = self.search.below(target, order, most, jump=number % 2 == 0)
        self.left -= used * self.weight + 1
        self.keys.add_blame(blame)
        if outcome == FOUND:
            leaf.offset, leaf.height = offset, height(leaf.items, offset)
        elif outcome == FAILED:
            leaf.proven = max(leaf.proven, target + 1)
        return outcome
