"""Greedy placement: one item after the other, each into a gap between those placed before that are alive with it."""

from typing import Any

import numpy as np

from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.occupied import Occupied, gap, new_occupied, occupy, with_more_room

_ANYWHERE = int(np.iinfo(np.int64).max)


def fit(items: Items, order: Ints, *, best: bool, around: Any = (), below: int = _ANYWHERE) -> Ints:
    """Place the items in `order`; return offsets by item, in bytes.

    Each goes into the lowest gap that is large enough, or, with `best`, into the smallest such gap. around: rows of
    blocks that are taken, by ascending offset: (offset, end) in bytes, the time at which the block is freed, and
    optionally the time from which it is taken. below: a height in bytes; once an item ends above it, the rest are not
    placed, and their offsets are meaningless.
    """
    offset = np.zeros(len(items), np.int64)
    taken = np.array(around, np.int64)
    taken = taken if taken.ndim == 2 else taken.reshape(-1, 3)
    begin = taken[:, 3] if taken.shape[1] == 4 else np.full(len(taken), np.iinfo(np.int64).min)
    times = np.unique(np.concatenate([items.start, begin]))
    occupied = new_occupied(len(times), 4 * (len(items) + len(taken)) + 1024)
    there = np.stack([times.searchsorted(begin), times.searchsorted(taken[:, 2]), taken[:, 0], taken[:, 1]], axis=1)
    first, last = times.searchsorted(items.start), times.searchsorted(items.end)
    n = -len(there)
    while True:
        n = _place(occupied, there, items.bytes, first, last, items.alignment, order, n, offset, best, below)
        if n == len(order):
            return offset
        occupied = with_more_room(occupied)


def height(items: Items, offset: Ints) -> int:
    """The height of a plan: the largest offset + size, in bytes."""
    return int((offset + items.bytes).max(initial=0))


@kernel
def _place(
    occupied: Occupied,
    there: Any,
    size: Any,
    first: Any,
    last: Any,
    alignment: Any,
    order: Any,
    n: int,
    offset: Any,
    best: bool,
    below: int,
) -> int:
    """Fill `offset` from the n-th item on, and before the first with what is there (n < 0); how far there was room."""
    while n < len(order):
        if n < 0:
            k = len(there) + n
            a, b, low, high = there[k, 0], there[k, 1], there[k, 2], there[k, 3]
        else:
            i = order[n]
            a, b = first[i], last[i]
            low = offset[i] = gap(occupied, a, b, size[i], alignment[i], best)
            high = low + size[i]
            if high > below:
                return len(order)
        if a < b and not occupy(occupied, a, b, low, high):
            return n
        n += 1
    return n
