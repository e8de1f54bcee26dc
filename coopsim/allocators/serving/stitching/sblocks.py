"""The sBlocks: found for a request, unmapped when there are too many, or when a segment that they map goes."""

from coopsim.allocators.serving.stitching.chunks import CHUNK, PBlock, SBlock
from coopsim.allocators.serving.stitching.events import Clock


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

    def collect(self, clock: Clock) -> None:
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
