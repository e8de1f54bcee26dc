"""The pBlocks of all segments: found, cut, merged; and the free ones of each stream, by size."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from coopsim.allocators.serving.result import Meter
from coopsim.allocators.serving.stitching.chunks import CHUNK, Chunk, PBlock
from coopsim.allocators.serving.stitching.events import NEVER


class PBlocks:
    """`free`: by stream, sorted by size and address."""

    def __init__(self, meter: Meter) -> None:
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
