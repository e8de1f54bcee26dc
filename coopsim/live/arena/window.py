"""Finds the cheapest adjacent blocks whose eviction or move makes room for a request. Knows no torch."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

_WINDOWS = 32  #: ranges that are tried, the cheapest first, until the blocks of one fit elsewhere

Layout = Sequence[tuple[int, int]]  #: (offset, bytes) of each block, by ascending offset
_Window = tuple[float, int, int]  # cost of what lies in it, and the numbers of those blocks: from, to


def cheapest(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> list[int]:
    """Offsets of adjacent blocks that, with the gaps around them, span `nbytes` bytes, at the least total price.

    size: of the arena, in bytes. price: by offset, of the blocks that can be evicted. Empty: there are none.
    """
    _, start, end = min(_windows(layout, price, nbytes, size), default=(0.0, 0, 0))
    return [offset for offset, _ in layout[start:end]]


def moves(layout: Layout, movable: Collection[int], nbytes: int, size: int) -> list[tuple[int, int]]:
    """Moves (offset, new offset) that make a gap of `nbytes`, for few bytes moved.

    movable: offsets of the blocks that may be moved. size: of the arena, in bytes. Empty if no such moves were found.
    """
    price = {offset: float(length) for offset, length in layout if offset in movable}
    gaps = list(_gaps(layout, size))
    for _, start, end in sorted(_windows(layout, price, nbytes, size))[:_WINDOWS]:
        low, high = layout[start][0], layout[end - 1][0]
        room = sorted((n, at) for at, n in gaps if not _beside(at, n, low, high, layout[end - 1][1]))
        if (found := _fit(layout[start:end], room)) is not None:
            return found
    return []


def _windows(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> Iterator[_Window]:
    """All minimal ranges of blocks with a price that span `nbytes` once they are empty."""
    start, low, cost = 0, 0, 0.0
    for k, (offset, length) in enumerate(layout):
        if offset not in price:
            start, low, cost = k + 1, offset + length, 0.0
            continue
        cost += price[offset]
        high = layout[k + 1][0] if k + 1 < len(layout) else size
        while start < k and high - (layout[start][0] + layout[start][1]) >= nbytes:
            cost -= price[layout[start][0]]
            low = layout[start][0] + layout[start][1]
            start += 1
        if high - low >= nbytes:
            yield cost, start, k + 1


def _gaps(layout: Layout, size: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of each gap."""
    for (at, length), (after, _) in pairwise([(0, 0), *layout, (size, 0)]):
        if after > at + length:
            yield at + length, after - at - length


def _beside(at: int, nbytes: int, low: int, high: int, length: int) -> bool:
    """Whether a gap touches the range from the block at `low` to the one at `high`, which has `length` bytes."""
    return at + nbytes >= low and at <= high + length


def _fit(blocks: Layout, room: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Move each block, the largest first, into the gap that it fits best; None if one fits nowhere.

    room: (bytes, offset) of the gaps, sorted; it is used up.
    """
    found = []
    for offset, length in sorted(blocks, key=lambda block: -block[1]):
        i = bisect_left(room, (length, 0))
        if i == len(room):
            return None
        n, at = room.pop(i)
        found.append((offset, at))
        if n > length:
            insort(room, (n - length, at + length))
    return found
