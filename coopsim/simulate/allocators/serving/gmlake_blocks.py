"""What a request got: pBlocks, or a block of the pool of small requests.

The pBlocks of all segments: found, cut, merged; and the free ones of each stream, by size.

The sBlocks: found for a request, unmapped when there are too many, or when a segment that they map goes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from coopsim.simulate.allocators.serving.gmlake_chunks import CHUNK, NEVER, Chunk, PBlock, SBlock, TickClock
from coopsim.simulate.allocators.serving.plain import BlockInUse, PlainBlock, Segments
from coopsim.simulate.allocators.serving.result import ServingMeter

Handle = list[PBlock] | BlockInUse


def key(handle: Handle) -> PlainBlock | PBlock:
    """What stands for it: its only block, or the first."""
    return handle.block if isinstance(handle, BlockInUse) else handle[0]


def stream_of(handle: Handle, small: dict[int, Segments]) -> int:
    """The stream that it was taken on. `small`: the pool of each stream."""
    if isinstance(handle, BlockInUse):
        return next(stream for stream, pool in small.items() if pool is handle.pool)
    return handle[0].stream


def bytes_of(handle: Handle) -> int:
    """What is allocated for it."""
    if isinstance(handle, BlockInUse):
        return handle.block.bytes
    return sum(len(block.chunks) for block in handle) * CHUNK


class PBlocks:
    """`free`: by stream, sorted by size and address."""

    def __init__(self, meter: ServingMeter) -> None:
        self.meter = meter
        self.free: dict[int, list[tuple[tuple[int, int], PBlock]]] = {}
        self._end = 0  # first address that no segment has had

    def smallest(self, n: int, stream: int) -> PBlock | None:
        """The smallest free pBlock of at least n chunks, cut to n."""
        free = self.free.setdefault(stream, [])
        at = bisect_left(free, ((n, -1),))
        if at == len(free):
            return None
        block = free[at][1]
        self.first(block, n)
        return block

    def largest(self, n: int, stream: int) -> list[PBlock]:
        """Free pBlocks, the largest first, until they have n chunks together; none if they never do."""
        chosen: list[PBlock] = []
        for _, block in reversed(self.free.get(stream, [])):
            chosen.append(block)
            n -= len(block.chunks)
            if n <= 0:
                return chosen
        return []

    def spare(self, stream: int) -> int:
        """How many chunks are free."""
        return sum(key[0] for key, _ in self.free.get(stream, []))

    def whole(self) -> Iterator[PBlock]:
        """Free segments, in the order in which they go back to the device."""
        for _, free in sorted(self.free.items()):
            yield from [block for _, block in free if block.is_segment]

    def segment(self, nbytes: int, stream: int) -> PBlock:
        """A new segment, free."""
        self.meter.reserve(nbytes)
        block = PBlock(self._end, [Chunk() for _ in range(nbytes // CHUNK)], stream)
        self._end += nbytes
        self._keep(block)
        return block

    def drop(self, block: PBlock) -> None:
        """Give a free segment back to the device."""
        self._forget(block)
        self.meter.release(len(block.chunks) * CHUNK)

    def first(self, block: PBlock, n: int) -> None:
        """Cut a free pBlock to n chunks that are no longer listed as free. The event stays with the rest."""
        self._forget(block)
        if self._cut(block, n):
            block.last = NEVER

    def carve(self, chunks: list[Chunk]) -> list[PBlock]:
        """PBlocks of exactly these free chunks, in their order, cut out of the ones they are in."""
        blocks: list[PBlock] = []
        at = 0
        while at < len(chunks):
            block = chunks[at].block
            skipped = block.chunks.index(chunks[at])
            n = 1
            while (
                at + n < len(chunks) and skipped + n < len(block.chunks) and chunks[at + n] is block.chunks[skipped + n]
            ):
                n += 1
            self._forget(block)
            if skipped:
                rest = self._cut(block, skipped)
                assert rest is not None
                self._keep(block)
                self._forget(rest)
                block = rest
            self._cut(block, n)
            blocks.append(block)
            at += n
        return blocks

    def merge(self, block: PBlock) -> None:
        """List a freed pBlock, one with its free neighbours in the segment; the latest event is that of all."""
        for left, right in ((block, block.after), (block.before, block)):
            if left is None or right is None or not (left.free and right.free):
                continue
            self._forget(right if left is block else left)
            left.chunks = left.chunks + right.chunks
            left.last = max(left.last, right.last)
            for chunk in right.chunks:
                chunk.block = left
            left.after = right.after
            if right.after is not None:
                right.after.before = left
            block = left
        self._keep(block)

    def _cut(self, block: PBlock, n: int) -> PBlock | None:
        """Cut a pBlock that is in no list to n chunks; the rest, if there is one, is free and listed."""
        if len(block.chunks) == n:
            return None
        rest = PBlock(block.address + n * CHUNK, block.chunks[n:], block.stream, block.last)
        block.chunks = block.chunks[:n]
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        self._keep(rest)
        return rest

    def _keep(self, block: PBlock) -> None:
        insort(self.free.setdefault(block.stream, []), (block.key, block))

    def _forget(self, block: PBlock) -> None:
        free = self.free[block.stream]
        del free[bisect_left(free, (block.key,))]


class SBlocks:
    """`all`: in the order in which they were made. `stitched`: bytes that were ever stitched, less what was collected.

    `kept`: bytes of segments that went back but stay with the device, since an sBlock still maps them.
    `faults`: how often the release's program would have crashed, or used memory that it had freed.
    """

    def __init__(self) -> None:
        self.all: list[SBlock] = []
        self.stitched = self.made = self.mapped_chunks = self.unmapped = self.kept = self.faults = 0

    def stitch(self, blocks: list[PBlock], stream: int) -> SBlock:
        """Map all chunks of these pBlocks."""
        chunks = [chunk for block in blocks for chunk in block.chunks]
        self.made += 1
        self.mapped_chunks += len(chunks)
        self.stitched += len(chunks) * CHUNK
        s = SBlock(self.made, chunks, stream, max(block.last for block in blocks))
        self.all.append(s)
        return s

    def idle(self, n: int, limit: float, stream: int) -> SBlock | None:
        """The smallest idle sBlock of at least n chunks, the oldest of several; None if it has more than `limit`."""
        fits = [s for s in self.all if not s.used and s.stream == stream and len(s.chunks) >= n]
        for s in sorted(fits, key=lambda s: (len(s.chunks), s.number)):
            if len(s.chunks) > limit:
                return None
            if not any(chunk.gone for chunk in s.chunks[:n]):
                return s
            self.fault(s)
        return None

    def collect(self, clock: TickClock) -> None:
        """Unmap all that are not lent, also those whose chunks are in use; up to one that was given back too recently.

        Of each stream, those with chunks in use go first, then the idle ones, in the order of their events.
        """
        for idle in (False, True):
            waits = set()  # streams
            found = [s for s in self.all if not s.lent and (not s.used) == idle]
            for s in sorted(found, key=lambda s: (s.last.number, len(s.chunks), s.number)):
                if s.stream in waits or s.last.done > clock.now:
                    waits.add(s.stream)
                    continue
                self.stitched -= len(s.chunks) * CHUNK
                self.unmap(s)

    def leave(self, segment: PBlock) -> None:
        """A segment goes back to the device, and with it the sBlocks that map it; those that are lent stay, broken.

        Chunk by chunk, the release walks along a list of sBlocks from which it removes as it goes, so that it skips the
        next one each time. What it has not met on any chunk stays, and maps memory of no segment.
        """
        for chunk in segment.chunks:
            left = list(chunk.mapped)  # as the walk sees it: what removing has moved, and old values behind the new end
            for at in range(len(left)):
                s = left[at]
                if s.lent:
                    s.broken = True
                elif s in chunk.mapped:
                    self.unmap(s)
                    left[: len(chunk.mapped)] = chunk.mapped
        for chunk in segment.chunks:
            chunk.gone = True
            self.kept += CHUNK * bool(chunk.mapped)

    def fault(self, s: SBlock) -> None:
        """The release crashes over this sBlock, or worse; here it is unmapped."""
        self.faults += 1
        self.unmap(s)

    def unmap(self, s: SBlock) -> None:
        """Unmap an sBlock for good."""
        self.unmapped += 1
        self.all.remove(s)
        for chunk in s.chunks:
            chunk.mapped.remove(s)
            self.kept -= CHUNK * (chunk.gone and not chunk.mapped)
