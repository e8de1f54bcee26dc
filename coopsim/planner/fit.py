"""Greedy placement: one item after the other, each into a gap between those placed before that are alive with it."""

from typing import Any

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.planner.items import Ints, Items

_ANYWHERE = int(np.iinfo(np.int64).max)
_FROM, _UNTIL, _LOW, _HIGH = range(4)  # columns of what is placed: when it is alive, and where


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
    placed = np.empty((len(taken) + len(order), 4), np.int64)
    placed[: len(taken), _FROM] = taken[:, 3] if taken.shape[1] == 4 else np.iinfo(np.int64).min
    placed[: len(taken), _UNTIL] = taken[:, 2]
    placed[: len(taken), _LOW:] = taken[:, :2]
    _place(items.bytes, items.start, items.end, items.alignment, order, placed, len(taken), offset, best, below)
    return offset


def height(items: Items, offset: Ints) -> int:
    """The height of a plan: the largest offset + size, in bytes."""
    return int((offset + items.bytes).max(initial=0))


@kernel
def _place(
    size: Any,
    start: Any,
    end: Any,
    alignment: Any,
    order: Any,
    placed: Any,
    n: int,
    offset: Any,
    best: bool,
    below: int,
) -> None:
    """Fill `offset`. The first n rows of `placed` are taken; rows stay sorted by offset."""
    for position in range(len(order)):
        i = order[position]
        a, b, floor, found, smallest = start[i], end[i], 0, -1, 0
        for k in range(n):
            if placed[k, _FROM] < b and a < placed[k, _UNTIL]:
                at = _aligned(floor, alignment[i])
                gap = placed[k, _LOW] - at
                if gap >= size[i] and (found < 0 or gap < smallest):
                    found, smallest = at, gap
                    if not best:
                        break
                floor = max(floor, placed[k, _HIGH])
        if found < 0:
            found = _aligned(floor, alignment[i])
        offset[i] = found
        if found + size[i] > below:
            return
        k = n
        while k > 0 and placed[k - 1, _LOW] > found:
            for column in range(4):
                placed[k, column] = placed[k - 1, column]
            k -= 1
        placed[k, _FROM], placed[k, _UNTIL] = a, b
        placed[k, _LOW], placed[k, _HIGH] = found, found + size[i]
        n += 1


@inlined
def _aligned(offset: int, alignment: int) -> int:
    return offset if alignment == 1 else -(-offset // alignment) * alignment
