"""Obstacles of the exact search (exact.py): items that keep their offsets, and that others are placed around.

They raise the lowest offsets of the items alive with them, and leave each section less room. Both are read from lists
of blocks, (from, until) in bytes, by ascending offset, that neither touch nor overlap: a list per item and per section.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.packing import exact_state as s
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.sections import Sections, times

_FROM, _UNTIL, _LOW, _HIGH = range(4)  # columns of what keeps its offset: when it is alive, and where


@dataclass(frozen=True)
class ObstacleBlocks:
    """Lists of blocks (from, until), in bytes; the k-th is `rows[at[k]:at[k + 1]]`."""

    rows: Ints
    at: Ints


@dataclass(frozen=True)
class Obstacles:
    """The obstacles of each item, and of each section."""

    of_item: ObstacleBlocks
    of_section: ObstacleBlocks


def obstacles(items: Items, found: Sections, around: Items, offset: Ints) -> Obstacles:
    """The obstacles of `items` and of their sections `found`: the items `around`, at these offsets in bytes."""
    standing = np.stack([around.start, around.end, offset, offset + around.bytes], axis=1)
    standing = standing[np.argsort(offset, kind="stable")]
    at = times(items, found)
    return Obstacles(_blocks(items.start, items.end, standing), _blocks(at, at + 1, standing))


def nothing(n: int, m: int) -> Obstacles:
    """No obstacles for n items and m sections."""
    rows = np.zeros((0, 2), np.int64)
    return Obstacles(ObstacleBlocks(rows, np.zeros(n + 1, np.int64)), ObstacleBlocks(rows, np.zeros(m + 1, np.int64)))


def _blocks(start: Ints, end: Ints, standing: Ints) -> ObstacleBlocks:
    at = np.zeros(len(start) + 1, np.int64)
    rows = np.zeros((0, 2), np.int64)
    _merge(start, end, standing, at, rows)  # counts them
    rows = np.zeros((at[-1], 2), np.int64)
    _merge(start, end, standing, at, rows)
    return ObstacleBlocks(rows, at)


@kernel
def _merge(start: Any, end: Any, standing: Any, at: Any, rows: Any) -> None:
    """Write the blocks alive in each interval to `rows`, and where each list begins to `at`.

    With too few rows, blocks are only counted.
    """
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
def clear(S: s.SearchState, i: int, offset: int) -> int:
    """The lowest aligned offset of item i, at or above `offset`, that overlaps no obstacle."""
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
def lowest_room(S: s.SearchState, section: int) -> int:
    """The highest offset above which a section has room for the items left in it; negative if there is none."""
    need, top = S.left[section], S.K[s.K_CAP]
    for back in range(S.hurdle_at[section + 1] - S.hurdle_at[section]):
        k = S.hurdle_at[section + 1] - 1 - back
        if top - S.hurdles[k, 1] >= need:
            return top - need
        need -= max(0, top - S.hurdles[k, 1])
        top = min(top, S.hurdles[k, 0])
    return top - need
