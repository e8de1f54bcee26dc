"""Searches for a plan below a height, one after the other: of all items together, or by parts."""

import random
from dataclasses import dataclass

from coopsim.simulate.packing.by_parts import SIZES, Attempt, weight
from coopsim.simulate.packing.exact import FAILED, FOUND, GAVE_UP, ExactSearch
from coopsim.simulate.packing.fit import height
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.sections import Keys, count_pairs, luby, sections

RESTART = 4_000  #: placements of the shortest search

_MOST_PAIRS = 1 << 24  #: pairs of items alive together up to which all are searched at once, with a row per pair


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
