"""Addresses for the stays of a rehearsed step, around those that are in memory when it starts."""

from typing import Any

import numpy as np

from coopsim.kernel.jit import kernel
from coopsim.kernel.state import Array
from coopsim.planner.items import Items
from coopsim.planner.orders import Keys
from coopsim.planner.sections import sections
from coopsim.replay.periodic.rehearse import Q_BYTES, Q_FROM, Q_UNTIL


def place(stays: Array, fixed: Array, budget: int) -> tuple[Array, int]:
    """Addresses of all stays, the first of which have the addresses `fixed`, and how far they reach above the budget.

    First fit and best fit in the planner's seven orders; the first that fits, else the lowest.
    """
    items = Items(stays[:, Q_BYTES], stays[:, Q_FROM], stays[:, Q_UNTIL], np.ones(len(stays), np.int64))
    best, least = np.zeros(0, np.int64), 1 << 62
    for order in Keys(items, sections(items)).greedy():
        order = np.concatenate([np.arange(len(fixed)), order[order >= len(fixed)]])
        for choice in (False, True):
            at = np.zeros(len(items), np.int64)
            at[: len(fixed)] = fixed
            _fit(items.bytes, items.start, items.end, order, len(fixed), np.zeros(len(items), np.int64), at, choice)
            above = int((at + items.bytes).max(initial=0)) - budget
            if above < least:
                best, least = at, above
            if least <= 0:
                return best, 0
    return best, least


@kernel
def _fit(size: Any, start: Any, end: Any, order: Any, n_fixed: int, by_address: Any, at: Any, best: bool) -> None:
    """Give each item in turn the lowest gap between those that live with it, or with `best` the smallest."""
    for n in range(len(order)):
        i = order[n]
        if n >= n_fixed:
            floor, found, smallest = 0, -1, 0
            for k in range(n):
                j = by_address[k]
                if start[j] < end[i] and start[i] < end[j]:
                    gap = at[j] - floor
                    if gap >= size[i] and (found < 0 or gap < smallest):
                        found, smallest = floor, gap
                        if not best:
                            break
                    floor = max(floor, at[j] + size[j])
            at[i] = floor if found < 0 else found
        k = n
        while k > 0 and at[by_address[k - 1]] > at[i]:
            by_address[k] = by_address[k - 1]
            k -= 1
        by_address[k] = i
