"""What the exact search (exact.py) has to place its items around: items of a plan that keep their offsets.

They raise the lowest offsets of what is alive with them, and leave each section less room. Both are read from lists of
blocks, (from, until) in bytes, that neither touch nor overlap: a list per item and per section, from the lowest up.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.planner import exact_state as s
from coopsim.planner.items import Ints, Items
from coopsim.planner.sections import Sections, times

_FROM, _UNTIL, _LOW, _HIGH = range(4)  # columns of what keeps its offset: when it is alive, and where


@dataclass(frozen=True)
class Blocks:
    """`rows[at[k]:at[k + 1]]` is the k-th list."""

    rows: Ints
    at: Ints


@dataclass(frozen=True)
class Obstacles:
    """What is in the way of each item and of each section."""

    of_item: Blocks
    of_section: Blocks


def obstacles(items: Items, found: Sections, around: Items, offset: Ints) -> Obstacles:
    """What is in the way of `items`, if those of `around` lie at these offsets."""
    standing = np.stack([around.start, around.end, offset, offset + around.bytes], axis=1)
    standing = standing[np.argsort(offset, kind="stable")]
    at = times(items, found)
    return Obstacles(_blocks(items.start, items.end, standing), _blocks(at, at + 1, standing))


def nothing(n: int, m: int) -> Obstacles:
    """No obstacles for n items and m sections."""
    rows = np.zeros((0, 2), np.int64)
    return Obstacles(Blocks(rows, np.zeros(n + 1, np.int64)), Blocks(rows, np.zeros(m + 1, np.int64)))


def _blocks(start: Ints, end: Ints, standing: Ints) -> Blocks:
    at = np.zeros(len(start) + 1, np.int64)
    rows = np.zeros((0, 2), np.int64)
    _merge(start, end, standing, at, rows)  # counts them
    rows = np.zeros((at[-1], 2), np.int64)
    _merge(start, end, standing, at, rows)
    return Blocks(rows, at)


@kernel
def _merge(start: Any, end: Any, standing: Any, at: Any, rows: Any) -> None:
    """List what is alive with each stretch of time; nothing is written where `rows` are too few."""
    n = 0
    for k in range(len(start)):
        at[k], top = n, -1
        for j in range(len(standing)):
            if standing[j, _FROM] >= end[k] or start[k] >= standing[j, _UNTIL] or standing[j, _HIGH] <= top:
                continue
            if standing[j, _LOW] > top:
                n += 1
                if n <= len(rows):
                    rows[n - 1, 0] = standing[j, _LOW]
            top = standing[j, _HIGH]
            if n <= len(rows):
                rows[n - 1, 1] = top
    at[len(start)] = n


@inlined
def clear(S: s.State, i: int, offset: int) -> int:
    """The lowest offset for item i from this one on that is aligned, and beside all obstacles."""
    alignment = S.alignment[i]
    if alignment > 1:
        offset = -(-offset // alignment) * alignment
    k, after = S.wall_from[i], S.wall_until[i]
    while k < after:  # the first that ends above the offset
        middle = (k + after) // 2
        if S.walls[middle, 1] > offset:
            after = middle
        else:
            k = middle + 1
    while k < S.wall_until[i] and S.walls[k, 0] < offset + S.nbytes[i]:
        offset = max(offset, S.walls[k, 1])
        if alignment > 1:
            offset = -(-offset // alignment) * alignment
        k += 1
    return offset


@inlined
def lowest_room(S: s.State, section: int) -> int:
    """The highest offset from which on a section has room for what is left in it; negative if it has none."""
    need, top = S.left[section], S.K[s.K_CAP]
    for back in range(S.hurdle_at[section + 1] - S.hurdle_at[section]):
        k = S.hurdle_at[section + 1] - 1 - back
        if top - S.hurdles[k, 1] >= need:
            return top - need
        need -= max(0, top - S.hurdles[k, 1])
        top = min(top, S.hurdles[k, 0])
    return top - need
