"""Physical memory in chunks; pBlocks, which are runs of a segment's chunks; sBlocks, which map chunks of several."""

from coopsim.allocators.serving.plain import ROUND
from coopsim.allocators.serving.stitching.events import NEVER, Event

CHUNK = ROUND


class Chunk:
    """2 MiB of physical memory: whether it is in use, its pBlock, and the sBlocks that map it, oldest first.

    `gone`: its segment went back to the device.
    """

    __slots__ = ("block", "gone", "mapped", "used")

    def __init__(self) -> None:
        self.used = self.gone = False
        self.block: PBlock
        self.mapped: list[SBlock] = []


class PBlock:
    """A run of one segment's chunks; `before` and `after` are its neighbours there.

    `lent`: the sBlock that it is in use for. `last`: the event of the last time that its memory was given back.
    """

    __slots__ = ("address", "after", "before", "chunks", "free", "last", "lent", "stream")

    def __init__(self, address: int, chunks: list[Chunk], stream: int, last: Event = NEVER) -> None:
        self.address, self.chunks, self.stream, self.last, self.free = address, chunks, stream, last, True
        self.before: PBlock | None = None
        self.after: PBlock | None = None
        self.lent: SBlock | None = None
        for chunk in chunks:
            chunk.block = self

    @property
    def key(self) -> tuple[int, int]:
        """What free pBlocks of a stream are sorted by: size in chunks, then address."""
        return len(self.chunks), self.address

    @property
    def is_segment(self) -> bool:
        """Is this all of its segment?"""
        return self.before is None and self.after is None


class SBlock:
    """Chunks of several pBlocks under one run of addresses, which grow with `number`.

    `used` counts the chunks in use; it is idle at 0. `lent`: it is handed out, perhaps only its first chunks. `broken`:
    a segment that it maps went back to the device while it was lent.
    """

    __slots__ = ("broken", "chunks", "last", "lent", "number", "stream", "used")

    def __init__(self, number: int, chunks: list[Chunk], stream: int, last: Event) -> None:
        self.number, self.chunks, self.stream, self.last = number, chunks, stream, last
        self.lent = self.broken = False
        self.used = 0
        for chunk in chunks:
            self.used += chunk.used
            chunk.mapped.append(self)
