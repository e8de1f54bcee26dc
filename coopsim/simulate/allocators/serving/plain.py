"""Segments with best fit, as PyTorch's caching allocator has them by default: one pool of them, for one stream.

GMLake's small pool and the fallback of `planned` are this: the smallest free block that is large enough, the lowest
address on ties; cut where the rest is worth keeping; freed neighbours in a segment merge at once.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from coopsim.base.types import GRANULE, MIB
from coopsim.simulate.allocators.serving.result import ServingMeter, ServingOutOfMemory

SMALL = MIB  #: largest request of the small pool
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
LARGE_REQUEST = 10 * MIB  #: from which a segment is made to measure
ROUND = 2 * MIB


def segment_bytes(nbytes: int, rounding: int = ROUND) -> int:
    """Bytes of the segment that is made where `nbytes` fit in none."""
    if nbytes <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if nbytes < LARGE_REQUEST else -(-nbytes // rounding) * rounding


def pages(nbytes: int) -> int:
    """What a segment of so many bytes takes of the device: whole pages of 2 MiB."""
    return -(-nbytes // ROUND) * ROUND


def rounded(nbytes: int) -> int:
    """What a request takes: whole granules, one at least."""
    return max(-(-nbytes // GRANULE) * GRANULE, GRANULE)


class PlainBlock:
    """A run of one segment, used or free; `before` and `after` are its neighbours there."""

    __slots__ = ("address", "after", "before", "bytes", "free")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.bytes, self.free = address, nbytes, True
        self.before: PlainBlock | None = None
        self.after: PlainBlock | None = None


class Segments:
    """A pool of segments. `least` is the smallest rest that is cut off.

    Blocks of `max_split` bytes and more are not cut for smaller requests, nor used for requests 20 MiB smaller.
    """

    def __init__(self, meter: ServingMeter, least: int, max_split: int | None = None) -> None:
        self.meter, self.least, self.max_split = meter, least, max_split
        self.holes: list[tuple[int, int, PlainBlock]] = []  # bytes, address: unique, so that blocks are never compared
        self.end = 0

    def take(self, nbytes: int) -> PlainBlock | None:
        """The best free block, cut to `nbytes`; None if none is large enough."""
        at = bisect_left(self.holes, (nbytes, -1))
        if at == len(self.holes) or self._is_too_large(self.holes[at][0], nbytes):
            return None
        block = self.holes.pop(at)[2]
        self._hand_out(block, nbytes)
        return block

    def make(self, segment: int, nbytes: int) -> PlainBlock:
        """The first `nbytes` of a new segment, whatever else is free."""
        block = self._segment(segment)
        self._hand_out(block, nbytes)
        return block

    def give_back(self, block: PlainBlock) -> None:
        """Free a block and merge it with free neighbours."""
        self.meter.add("allocated", -block.bytes)
        block.free = True
        for left, right in ((block, block.after), (block.before, block)):
            if left is not None and right is not None and left.free and right.free:
                other = right if left is block else left
                self._remove(other)
                left.bytes += right.bytes
                left.after = right.after
                if right.after is not None:
                    right.after.before = left
                block = left
        self._add(block)

    def release(self) -> None:
        """Give segments without a used block back to the device."""
        whole = [hole for hole in self.holes if hole[2].before is None and hole[2].after is None]
        for hole in whole:
            self.holes.remove(hole)
            self.meter.release(pages(hole[0]))

    def cut(self, block: PlainBlock, nbytes: int) -> None:
        """Cut a block that is in no list to `nbytes`, if the rest is worth keeping; the rest is a hole."""
        if block.bytes - nbytes < self.least or (self.max_split is not None and nbytes >= self.max_split):
            return
        rest = PlainBlock(block.address + nbytes, block.bytes - nbytes)
        block.bytes = nbytes
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        self._add(rest)

    def _is_too_large(self, hole: int, nbytes: int) -> bool:
        if self.max_split is None:
            return False
        return hole >= self.max_split if nbytes < self.max_split else hole >= nbytes + LARGE_SEGMENT

    def _segment(self, nbytes: int) -> PlainBlock:
        self.meter.reserve(pages(nbytes))
        block = PlainBlock(self.end, nbytes)
        self.end += nbytes
        return block

    def _hand_out(self, block: PlainBlock, nbytes: int) -> None:
        self.cut(block, nbytes)
        block.free = False
        self.meter.add("allocated", block.bytes)

    def _add(self, block: PlainBlock) -> None:
        insort(self.holes, (block.bytes, block.address, block))

    def _remove(self, block: PlainBlock) -> None:
        del self.holes[bisect_left(self.holes, (block.bytes, block.address))]


class BlockInUse(NamedTuple):
    """A block that is in use, and where it came from."""

    pool: Segments
    block: PlainBlock


class Pools:
    """Small and large requests of each stream in pools of their own. `memory` is the device's, None: no end of it.

    `max_split`: see Segments. `rounding`: of segments made to measure.
    """

    def __init__(
        self, meter: ServingMeter, memory: int | None = None, max_split: int | None = None, rounding: int = ROUND
    ) -> None:
        self.meter, self.memory, self.max_split, self.rounding = meter, memory, max_split, rounding
        self.pools: dict[tuple[int, bool], Segments] = {}

    def take(self, nbytes: int, stream: int = 0) -> BlockInUse:
        """A block for a request. Raises OutOfMemory if it needs a segment that the device has no memory for."""
        nbytes = rounded(nbytes)
        pool = self._pool(nbytes, stream)
        block = pool.take(nbytes)
        if block is None:
            size = segment_bytes(nbytes, self.rounding)
            if not self.has_room(pages(size)):
                self.release()
            if not self.has_room(pages(size)):
                raise ServingOutOfMemory(nbytes, self.meter.now["reserved"], self.memory or 0)
            block = pool.make(size, nbytes)
        return BlockInUse(pool, block)

    def has_hole(self, nbytes: int, stream: int) -> bool:
        """Whether a request can be served without a new segment."""
        holes = self._pool(rounded(nbytes), stream).holes
        return bool(holes) and holes[-1][0] >= rounded(nbytes)

    def has_room(self, nbytes: int) -> bool:
        """Whether the device has so much memory left."""
        return self.memory is None or self.meter.now["reserved"] + nbytes <= self.memory

    def release(self) -> None:
        """Give all free segments back to the device."""
        for pool in self.pools.values():
            pool.release()

    def _pool(self, nbytes: int, stream: int) -> Segments:
        small = nbytes <= SMALL
        least = GRANULE if small else SMALL + GRANULE
        return self.pools.setdefault((stream, small), Segments(self.meter, least, self.max_split))
