"""Orders in which items are tried: MiniMalloc's, by the most bytes alive with an item, its lifetime, and its area."""

import random
from collections.abc import Iterator

import numpy as np

from coopsim.planner.items import Ints, Items
from coopsim.planner.sections import Sections, most_alive

_NOISE = 0.35  #: a disturbed key is at most exp(this) times larger or smaller
_BOOST = 10.0  #: the key of the item with the most blame is multiplied by 1 + this


class Keys:
    """The sort keys of items. found: their sections. blame: by item, its part in past failures, set by searches."""

    def __init__(self, items: Items, found: Sections) -> None:
        self.items, self.sections = items, found
        self.width = (items.end - items.start).astype(np.float64)
        self.contention = most_alive(items.bytes, found)[1]
        self.area = self.width * items.bytes
        self.blame = np.zeros(len(items))

    def order(self, kind: int, noise: random.Random | None = None) -> Ints:
        """The numbers of the items, first to last, in the order `kind` modulo 3: by area, contention or lifetime.

        noise: if given, it disturbs the keys, and items with blame go first.
        """
        width, area = self.width, self.area
        if noise is not None:
            spread = np.array([noise.uniform(-_NOISE, _NOISE) for _ in range(len(width))])
            factor = np.exp(spread) * (1 + _BOOST * self.blame / max(self.blame.max(initial=0), 1.0))
            width, area = width * factor, area * factor
        by = (
            (-area, -width, -self.contention),
            (-self.contention, -area, -width),
            (-width, -area, -self.contention),
        )
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
