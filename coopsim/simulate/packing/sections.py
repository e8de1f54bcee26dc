"""Sections of time: the maximal sets of items that are alive at the same time.

Two items overlap in time exactly if they share a section, so that a search may forget all other moments. There are at
most as many sections as items.

Orders in which items are tried: MiniMalloc's, by the most bytes alive with an item, its lifetime, and its area.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coopsim.simulate.packing.items import Ints, Items


@dataclass(frozen=True)
class Sections:
    """Sections, `count` in number, and those of each item: item i is alive in `first[i]` to `last[i] - 1`."""

    first: Ints
    last: Ints
    count: int


def sections(items: Items) -> Sections:
    """The sections of these items, in order of time."""
    starts, ends = np.unique(items.start), np.unique(items.end)
    # the items alive at a start are a largest set if one of them ends before the next start
    following = np.append(starts[1:], np.iinfo(np.int64).max)
    at = starts[np.searchsorted(ends, starts, "right") < np.searchsorted(ends, following, "right")]
    return Sections(np.searchsorted(at, items.start), np.searchsorted(at, items.end), len(at))


def times(items: Items, found: Sections) -> Ints:
    """For each section, a time at which all its items are alive."""
    at = np.full(found.count, np.iinfo(np.int64).min)
    np.maximum.at(at, found.first, items.start)
    return at


def parts(items: Items) -> list[Ints]:
    """Split items into groups that share no time; return the numbers of each group's items, in order of time."""
    order = np.lexsort((items.end, items.start))
    until = np.maximum.accumulate(items.end[order])
    cuts = np.flatnonzero(items.start[order][1:] >= until[:-1]) + 1
    return [np.sort(part) for part in np.split(order, cuts)] if len(order) else []


def most_alive(values: Ints, found: Sections) -> tuple[Ints, Ints]:
    """The sum of the items' values in each section; and for each item, the largest such sum among its sections."""
    change = np.zeros(found.count + 1, np.int64)
    np.add.at(change, found.first, values)
    np.add.at(change, found.last, -values)
    total = np.cumsum(change)[:-1]
    return total, _largest_between(total, found)


def _largest_between(total: Ints, found: Sections) -> Ints:
    """For each item, the maximum of total[first:last], from tables of the maxima of 1, 2, 4, … successive sections."""
    tables = [total]
    while 2 << (len(tables) - 1) <= len(total):
        step = 1 << (len(tables) - 1)
        tables.append(np.maximum(tables[-1][:-step], tables[-1][step:]))
    level = np.array([int(n).bit_length() - 1 for n in found.last - found.first], np.int64)
    result = np.zeros(len(found.first), np.int64)
    for k, table in enumerate(tables):
        here = level == k
        result[here] = np.maximum(table[found.first[here]], table[found.last[here] - (1 << k)])
    return result


def count_pairs(found: Sections) -> int:
    """The number of pairs of items that overlap in time."""
    begun = np.searchsorted(np.sort(found.first), found.last)
    over = np.searchsorted(np.sort(found.last), found.first, "right")
    return int((begun - over - 1).sum()) // 2


_NOISE = 0.35  #: a disturbed key is at most exp(this) times larger or smaller
_BOOST = 10.0  #: the key of the item with the most blame is multiplied by 1 + this


class Keys:
    """The sort keys of items. found: their sections. blame: by item, its part in past failures."""

    def __init__(self, items: Items, found: Sections) -> None:
        self.items, self.sections = items, found
        self.width = (items.end - items.start).astype(np.float64)
        self.contention = most_alive(items.bytes, found)[1]
        self.area = self.width * items.bytes
        self.blame = np.zeros(len(items))

    def add_blame(self, blame: Ints) -> None:
        """Add a search's blame, by item; that of earlier ones counts for less."""
        self.blame = 0.9 * self.blame + blame

    def order(self, kind: int, noise: random.Random | None = None) -> Ints:
        """The numbers of the items, first to last, in the order `kind` modulo 3: by area, contention or lifetime.

        noise: if given, it disturbs the keys, and items with blame go first.
        """
        width, area = self.width, self.area
        if noise is not None:
            spread = np.array([noise.uniform(-_NOISE, _NOISE) for _ in range(len(width))])
            factor = np.exp(spread) * (1 + _BOOST * self.blame / max(self.blame.max(initial=0), 1.0))
            width, area = width * factor, area * factor
        by = ((-area, -width, -self.contention), (-self.contention, -area, -width), (-width, -area, -self.contention))
        return np.lexsort(by[kind % 3])

    def greedy(self) -> Iterator[Ints]:
        """Seven orders that suit greedy placement (fit.py)."""
        items = self.items
        yield from (self.order(kind) for kind in range(3))
        yield np.lexsort((-self.width, -items.bytes))
        yield np.lexsort((-items.bytes, -self.area))
        yield np.lexsort((-self.width, items.start))
        yield np.lexsort((items.start, -items.bytes, -self.width))


def luby(k: int) -> int:
    """The k-th term, from 1, of Luby's sequence 1 1 2 1 1 2 4 …: how long the k-th restart may last.

    >>> [luby(k) for k in range(1, 16)]
    [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
    """
    while True:
        power = k.bit_length()
        if k == (1 << power) - 1:
            return 1 << (power - 1)
        k -= (1 << (power - 1)) - 1
