"""What to evict or to move so that a request finds room: blocks side by side, as cheap as can be. Knows no torch."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

_WINDOWS = 32  #: that are looked at, the cheapest first, for what lies in them to go elsewhere

Layout = Sequence[tuple[int, int]]  #: offset and bytes of each block, from the lowest up
_Window = tuple[float, int, int]  # cost of what lies in it, and the numbers of those blocks: from, to


def cheapest(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> list[int]:
    """Offsets of blocks between which and the gaps around them there are so many bytes, and that cost least together.

    size: of the arena. price: by offset, of those that can be evicted. Empty: no blocks will do.
    """
    _, start, end = min(_windows(layout, price, nbytes, size), default=(0.0, 0, 0))
    return [offset for offset, _ in layout[start:end]]


def moves(layout: Layout, movable: Collection[int], nbytes: int, size: int) -> list[tuple[int, int]]:
    """Offsets of blocks, and where they go, so that there are so many bytes side by side; as few bytes as can be.

    movable: offsets of those that may be moved. Empty: it cannot be done.
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
    """All that have room for a request once they are empty, and none of which has another inside it."""
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
    """Offset and bytes of each."""
    for (at, length), (after, _) in pairwise([(0, 0), *layout, (size, 0)]):
        if after > at + length:
            yield at + length, after - at - length


def _beside(at: int, nbytes: int, low: int, high: int, length: int) -> bool:
    """Is a gap of the window from the block at `low` to the one at `high`, which has `length` bytes?"""
    return at + nbytes >= low and at <= high + length


def _fit(blocks: Layout, room: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Each block into the gap that it fits best, the largest first. room: bytes and offset of gaps, sorted."""
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
