"""Items placed in the order in which they begin: what matters then is only which addresses are free at the time.

The gaps are in a binary tree over addresses, in units of what all sizes are multiples of: each node knows the largest
gap that begins below it. So an item costs the logarithm of the memory, however many there are.
"""

from typing import Any

import numpy as np

from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.kernel.reference import Bundle
from coopsim.simulate.packing.items import Ints, Items

_MOST = 2  # column of the nodes, after the node below for a 0 and for a 1 as the next bit of the address
_FREE, _USED, _LEVELS = range(3)
_ROOT = 1  # node 0 is none, with no gap


class _Gaps(Bundle):
    """nodes: two below each, and the largest gap there; path: from the root to an address; K: registers."""

    nodes: Ints
    path: Ints
    K: Ints


def as_they_come(items: Items, around: Ints, below: int, *, high: Any = None) -> Ints | None:
    """Offsets below a height in bytes, each item's in the lowest gap that is large enough when it begins; None: none.

    around: rows of what is there from the start, by ascending offset: offset, end, and the time at which it is freed.
    high: of each item, whether it goes to the end of the highest such gap instead. Alignments do not count.
    """
    n = len(around)
    unit = max(int(np.gcd.reduce(np.concatenate([items.bytes, around[:, :2].ravel(), [below]]))), 1)
    offset = np.concatenate([around[:, 0], np.zeros(len(items), np.int64)]) // unit
    size = np.concatenate([around[:, 1] - around[:, 0], items.bytes]) // unit
    end = np.concatenate([around[:, 2], items.end])
    start = np.argsort(items.start, kind="stable")
    goes_high = np.zeros(len(items), np.bool_) if high is None else high
    levels = max(below // unit, 1).bit_length()
    shared = (len(size) + 2).bit_length()  # levels on which paths to so many gaps have nodes in common
    nodes = np.zeros(((len(size) + 2) * (4 + max(levels - shared, 0)) + 2 * levels, 3), np.int64)
    gaps = _Gaps(nodes=nodes, path=np.zeros(levels, np.int64), K=np.array([0, _ROOT + 1, levels]))
    ends = np.argsort(end, kind="stable")
    if not _place(gaps, n, size, items.start, end, start, ends, goes_high, offset, below // unit):
        return None
    return offset[n:] * unit


@kernel
def _place(
    S: _Gaps, n: int, size: Any, begin: Any, end: Any, start: Any, ends: Any, high: Any, offset: Any, below: int
) -> bool:
    """Fill `offset` from the n-th on; the n before are there. False: one finds no gap."""
    floor = 0
    for k in range(n):
        if offset[k] > floor:
            _set_gap(S, floor, offset[k] - floor)
        floor = offset[k] + size[k]
    if below > floor:
        _set_gap(S, floor, below - floor)
    ended = 0
    for k in range(len(start)):
        i = start[k]
        while end[ends[ended]] <= begin[i]:
            _give_back(S, offset[ends[ended]], size[ends[ended]])
            ended += 1
        need = size[n + i]
        if need == 0:
            continue
        at = _gap_of(S, need, high[i])
        if at < 0:
            return False
        room = _size_at(S, at)
        if high[i]:
            _set_gap(S, at, room - need)
            at += room - need
        else:
            _set_gap(S, at, 0)
            if room > need:
                _set_gap(S, at + need, room - need)
        offset[n + i] = at
    return True


@inlined
def _give_back(S: _Gaps, at: int, size: int) -> None:
    """What lies there has gone: one gap with those beside it."""
    if size > 0:
        after = _size_at(S, at + size)
        if after > 0:
            _set_gap(S, at + size, 0)
        before = _gap_before(S, at)
        if before >= 0 and before + _size_at(S, before) == at:
            size += at - before
            at = before
        _set_gap(S, at, size + after)


@kernel
def _set_gap(S: _Gaps, at: int, size: int) -> None:
    """The gap that begins at an address is of this size; 0: there is none any more."""
    nodes, node = S.nodes, _ROOT
    for level in range(S.K[_LEVELS] - 1, -1, -1):
        S.path[level] = node
        bit = (at >> level) & 1
        if nodes[node, bit] == 0:
            new = S.K[_FREE]
            if new > 0:
                S.K[_FREE] = nodes[new, 0]
                nodes[new, 0] = 0
            else:
                new = S.K[_USED]
                S.K[_USED] += 1
            nodes[node, bit] = new
        node = nodes[node, bit]
    nodes[node, _MOST] = size
    for level in range(S.K[_LEVELS]):
        above, bit = S.path[level], (at >> level) & 1
        if nodes[node, _MOST] == 0:
            nodes[above, bit] = 0
            nodes[node, 0], nodes[node, 1] = S.K[_FREE], 0
            S.K[_FREE] = node
        nodes[above, _MOST] = max(nodes[nodes[above, 0], _MOST], nodes[nodes[above, 1], _MOST])
        node = above


@inlined
def _gap_of(S: _Gaps, need: int, high: bool) -> int:
    """Where the lowest gap, or the highest, begins that is as large; -1: there is none."""
    nodes, node, at = S.nodes, _ROOT, 0
    if nodes[node, _MOST] < need:
        return -1
    for _ in range(S.K[_LEVELS]):
        bit = 1 if high else 0
        if nodes[nodes[node, bit], _MOST] < need:
            bit = 1 - bit
        node = nodes[node, bit]
        at = 2 * at + bit
    return at


@inlined
def _size_at(S: _Gaps, at: int) -> int:
    """Of the gap that begins at an address; 0: there is none."""
    node = _ROOT
    for level in range(S.K[_LEVELS] - 1, -1, -1):
        node = S.nodes[node, (at >> level) & 1]
    return S.nodes[node, _MOST]


@inlined
def _gap_before(S: _Gaps, at: int) -> int:
    """Where the last gap begins that begins before an address; -1: there is none."""
    node, side, depth = _ROOT, 0, -1
    for level in range(S.K[_LEVELS] - 1, -1, -1):
        bit = (at >> level) & 1
        if bit and S.nodes[node, 0] > 0:
            side, depth = S.nodes[node, 0], level
        node = S.nodes[node, bit]
    if depth < 0:
        return -1
    found = (at >> depth) - 1
    for _ in range(depth):
        bit = 1 if S.nodes[side, 1] > 0 else 0
        side = S.nodes[side, bit]
        found = 2 * found + bit
    return found
