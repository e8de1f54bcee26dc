"""Which addresses are occupied when: gaps between what is placed, for any stretch of time, without a look at the rest.

A binary tree over the times at which something begins. Each node has two lists of address ranges that neither touch
nor overlap, from the lowest up: what is there throughout the node's time (COVER), and what is there at any of it but
not throughout that of the node above (ANY). A stretch of time is a few nodes, about two on each level. So what is there
at any of it is in a few lists: ANY of these nodes, and COVER of those above.
"""

import numpy as np

from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.kernel.reference import Bundle
from coopsim.simulate.packing.items import Ints

ANY, COVER = range(2)  # list 2 * node + this
LOW, HIGH, NEXT = range(3)
FREE, USED, ROOM, LEAVES = range(4)  # the first unused row that was used, rows used ever, rows left; leaves of the tree
_LEVELS = 64
_LISTS_A_LEVEL = 6  # at most: two nodes, one on either side of them, and two lists of some


class Occupied(Bundle):
    """The lists, and how far a walk has come along some of them."""

    rows: Ints  # LOW, HIGH, NEXT: a range of addresses, and the row that is next in its list, or among those unused; -1
    head: Ints  # of each list; -1: it is empty
    at: Ints  # the row that a walk has come to in each list that it is along
    K: Ints


def new_occupied(times: int, rows: int) -> Occupied:
    """Nothing is placed; `times`: at how many something begins."""
    leaves = 1 << max(times - 1, 1).bit_length()
    K = np.zeros(4, np.int64)
    K[FREE], K[ROOM], K[LEAVES] = -1, rows, leaves
    return Occupied(
        rows=np.zeros((rows, 3), np.int64),
        head=np.full(4 * leaves, -1),
        at=np.zeros(_LISTS_A_LEVEL * _LEVELS, np.int64),
        K=K,
    )


def with_more_room(S: Occupied) -> Occupied:
    """The same with twice as many rows."""
    n = len(S.rows)
    S.K[ROOM] += n
    rows = np.concatenate([S.rows, np.zeros_like(S.rows)])
    return Occupied(rows=rows, head=S.head, at=S.at, K=S.K)


@inlined
def _lies_inside(S: Occupied, node: int, width: int, first: int, last: int) -> bool:
    start = node * width - S.K[LEAVES]
    return first <= start and start + width <= last


@kernel
def occupy(S: Occupied, first: int, last: int, low: int, high: int) -> bool:
    """Addresses from low to high are taken from time `first` to before `last`. False: there may be no room for that."""
    a, b, width = first + S.K[LEAVES], last + S.K[LEAVES], 1
    if S.K[ROOM] < _LISTS_A_LEVEL * _LEVELS:
        return False
    while a < b:
        if a & 1:
            _add(S, 2 * a + ANY, low, high)
            _add(S, 2 * a + COVER, low, high)
            a += 1
        if b & 1:
            b -= 1
            _add(S, 2 * b + ANY, low, high)
            _add(S, 2 * b + COVER, low, high)
        a, b = a >> 1, b >> 1
    a, b = first + S.K[LEAVES], last - 1 + S.K[LEAVES]
    while a > 1:
        a, b, width = a >> 1, b >> 1, 2 * width
        if not _lies_inside(S, a, width, first, last):
            _add(S, 2 * a + ANY, low, high)
        if b != a and not _lies_inside(S, b, width, first, last):
            _add(S, 2 * b + ANY, low, high)
    return True


@inlined
def _add(S: Occupied, to: int, low: int, high: int) -> None:
    """A range more in a list; those that it touches become one with it."""
    prev, k = -1, S.head[to]
    while k >= 0 and S.rows[k, HIGH] < low:
        prev, k = k, S.rows[k, NEXT]
    if k < 0 or S.rows[k, LOW] > high:
        new = S.K[FREE]
        if new >= 0:
            S.K[FREE] = S.rows[new, NEXT]
        else:
            new = S.K[USED]
            S.K[USED] += 1
        S.K[ROOM] -= 1
        S.rows[new, LOW], S.rows[new, HIGH], S.rows[new, NEXT] = low, high, k
        if prev < 0:
            S.head[to] = new
        else:
            S.rows[prev, NEXT] = new
        return
    S.rows[k, LOW], S.rows[k, HIGH] = min(S.rows[k, LOW], low), max(S.rows[k, HIGH], high)
    following = S.rows[k, NEXT]
    while following >= 0 and S.rows[following, LOW] <= S.rows[k, HIGH]:
        S.rows[k, HIGH] = max(S.rows[k, HIGH], S.rows[following, HIGH])
        S.rows[k, NEXT] = S.rows[following, NEXT]
        S.rows[following, NEXT] = S.K[FREE]
        S.K[FREE] = following
        S.K[ROOM] += 1
        following = S.rows[k, NEXT]


@inlined
def _lists_of(S: Occupied, first: int, last: int) -> int:
    """Begin a walk along what is there from time `first` to before `last`; in how many lists that is."""
    n, a, b, width = 0, first + S.K[LEAVES], last + S.K[LEAVES], 1
    while a < b:
        if a & 1:
            n = _walk(S, n, 2 * a + ANY)
            a += 1
        if b & 1:
            b -= 1
            n = _walk(S, n, 2 * b + ANY)
        a, b = a >> 1, b >> 1
    a, b = first + S.K[LEAVES], last - 1 + S.K[LEAVES]
    while a > 1:
        a, b, width = a >> 1, b >> 1, 2 * width
        if not _lies_inside(S, a, width, first, last):
            n = _walk(S, n, 2 * a + COVER)
        if b != a and not _lies_inside(S, b, width, first, last):
            n = _walk(S, n, 2 * b + COVER)
    return n


@inlined
def _walk(S: Occupied, n: int, along: int) -> int:
    S.at[n] = S.head[along]
    return n + (S.at[n] >= 0)


@kernel
def gap(S: Occupied, first: int, last: int, nbytes: int, alignment: int, best: bool) -> int:
    """The offset of the lowest gap, or the smallest, that is free all the time and holds so many bytes."""
    n, floor, found, smallest = _lists_of(S, first, last), 0, -1, 0
    while n > 0:
        lowest, j = 1 << 62, 0
        while j < n:
            k = S.at[j]
            while k >= 0 and S.rows[k, LOW] <= floor:
                floor = max(floor, S.rows[k, HIGH])
                k = S.rows[k, NEXT]
            S.at[j] = k
            if k < 0:
                n -= 1
                S.at[j] = S.at[n]
            else:
                lowest = min(lowest, S.rows[k, LOW])
                j += 1
        if n > 0 and lowest > floor:
            at = floor if alignment == 1 else -(-floor // alignment) * alignment
            if lowest - at >= nbytes and (found < 0 or lowest - at < smallest):
                found, smallest = at, lowest - at
                if not best:
                    break
            floor = lowest
    if found < 0:
        found = floor if alignment == 1 else -(-floor // alignment) * alignment
    return found
