"""Place items one after the other, each into a gap between those placed before it that are alive with it."""

from typing import Any

import numpy as np

from coopsim.kernel.jit import kernel
from coopsim.planner.items import Ints, Items


def fit(items: Items, order: Ints, *, best: bool) -> Ints:
    """Offsets of all items: in the lowest gap that is large enough, or with `best` in the smallest."""
    offset, by_offset = np.zeros(len(items), np.int64), np.zeros(len(items), np.int64)
    _place(items.bytes, items.start, items.end, items.alignment, order, by_offset, offset, best)
    return offset


def height(items: Items, offset: Ints) -> int:
    """The largest offset + size."""
    return int((offset + items.bytes).max(initial=0))


@kernel
def _place(
    size: Any, start: Any, end: Any, alignment: Any, order: Any, by_offset: Any, offset: Any, best: bool
) -> None:
    """Fill `offset`. `by_offset` is room for the items placed so far, in the order of their offsets."""
    for n in range(len(order)):
        i = order[n]
        floor, found, smallest = 0, -1, 0
        for k in range(n):
            j = by_offset[k]
            if start[j] < end[i] and start[i] < end[j]:
                at = -(-floor // alignment[i]) * alignment[i]
                gap = offset[j] - at
                if gap >= size[i] and (found < 0 or gap < smallest):
                    found, smallest = at, gap
                    if not best:
                        break
                floor = max(floor, offset[j] + size[j])
        if found < 0:
            found = -(-floor // alignment[i]) * alignment[i]
        offset[i] = found
        k = n
        while k > 0 and offset[by_offset[k - 1]] > found:
            by_offset[k] = by_offset[k - 1]
            k -= 1
        by_offset[k] = i
