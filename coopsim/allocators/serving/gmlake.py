"""GMLake (Guo et al., ASPLOS 2024) on the requests of a program: large blocks are stitched from free ones. Own code.

Physical memory comes in chunks of 2 MiB. A *pBlock* is a run of a segment's chunks; an *sBlock* maps the chunks of
several pBlocks under addresses of its own, and may be handed out whenever all of them are free. Mapping costs calls,
never memory. Follows the released code, not the paper, where they differ; docs/allocators-planned.md says what is left
out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from coopsim.allocators.serving.plain import ROUND, SMALL, Held, Pools, rounded, segment_bytes
from coopsim.allocators.serving.result import Meter, OutOfMemory, Result
from coopsim.requests import Requests
from coopsim.types import GIB, MIB

CHUNK = ROUND


@dataclass(frozen=True)
class Options:
    """GMLake's settings, by the names of its environment variables; bytes where those have MB or GB.

    `frag_limit`: smaller requests are never stitched. `reuse_limit`: an sBlock serves no request so many times smaller.
    `defrag_level`: 0 stitches before making new segments, 1 when the device is full, 2 after all free segments have
    been given back. `auto_gc`: above so many bytes of sBlocks, idle ones are unmapped. `realloc`: where free blocks do
    not suffice, make only what is missing and stitch it to them. `memory`: of the device, None for no end of it.
    """

    frag_limit: int = 512 * MIB
    reuse_limit: int = 10
    defrag_level: int = 0
    auto_gc: int = 1000 * GIB
    realloc: bool = False
    memory: int | None = None


class Chunk:
    """2 MiB of physical memory: whether it is in use, and the sBlocks that map it."""

    __slots__ = ("block", "mapped", "used")

    def __init__(self) -> None:
        self.used = False
        self.block: PBlock
        self.mapped: list[SBlock] = []


class PBlock:
    """A run of one segment's chunks; `before` and `after` are its neighbours there."""

    __slots__ = ("address", "after", "before", "chunks", "free", "stream")

    def __init__(self, address: int, chunks: list[Chunk], stream: int) -> None:
        self.address, self.chunks, self.stream, self.free = address, chunks, stream, True
        self.before: PBlock | None = None
        self.after: PBlock | None = None
        for chunk in chunks:
            chunk.block = self

    @property
    def key(self) -> tuple[int, int]:
        """What free pBlocks of a stream are sorted by: size in chunks, then address."""
        return len(self.chunks), self.address


class SBlock:
    """Chunks of several pBlocks under one run of addresses. `used` counts those in use; it is idle at 0."""

    __slots__ = ("chunks", "number", "released", "stream", "used")

    def __init__(self, number: int, chunks: list[Chunk], stream: int) -> None:
        self.number, self.chunks, self.stream = number, chunks, stream
        self.used = self.released = 0
        for chunk in chunks:
            self.used += chunk.used
            chunk.mapped.append(self)


class GMLake:
    """The allocator. `take` gives a handle that `give_back` wants; chunks and blocks are open to be looked at."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.meter = Meter()
        self.small = Pools(self.meter, self.options.memory)
        self.free: dict[int, list[tuple[tuple[int, int], PBlock]]] = {}  # by stream, sorted by size and address
        self.stitched: list[SBlock] = []
        self.end = 0  # first address that no segment has had
        self.clock = 0
        self.count = {"stitches": 0, "reuses": 0, "unmapped": 0, "mapped_chunks": 0}

    def take(self, nbytes: int, stream: int = 0) -> list[PBlock] | Held:
        """Memory for a request. Raises OutOfMemory if the device has no more and nothing can be stitched."""
        nbytes = rounded(nbytes)
        if nbytes <= SMALL:
            if not self._has_room(segment_bytes(nbytes)) and not self.small.has_hole(nbytes, stream):
                self._release()
            return self.small.take(nbytes, stream)
        n = -(-nbytes // CHUNK)
        blocks = (
            self._whole(n, stream)
            or self._reuse(n, stream)
            or self._stitch(n, stream, level=0)
            or self._new(n, stream, segment_bytes(nbytes))
            or self._stitch(n, stream, level=1)
            or (self._release() and self._new(n, stream, segment_bytes(nbytes)))
            or self._stitch(n, stream, level=2)
        )
        if not blocks:
            raise OutOfMemory(n * CHUNK, self.meter.now["reserved"], self.options.memory or 0)
        self._use(blocks)
        return blocks

    def give_back(self, handle: list[PBlock] | Held) -> None:
        """Free what `take` gave."""
        if isinstance(handle, Held):
            handle.pool.give_back(handle.block)
            return
        self.clock += 1
        for block in handle:
            self.meter.add("allocated", -len(block.chunks) * CHUNK)
            for chunk in block.chunks:
                chunk.used = False
                for s in chunk.mapped:
                    s.used -= 1
                    s.released = self.clock
            block.free = True
            self._merge(block)

    def _whole(self, n: int, stream: int) -> list[PBlock]:
        """The smallest free pBlock of at least n chunks, cut to n."""
        free = self.free.setdefault(stream, [])
        at = bisect_left(free, ((n, -1),))
        if at == len(free):
            return []
        block = free[at][1]
        self._forget(block)
        self._cut(block, n)
        return [block]

    def _reuse(self, n: int, stream: int) -> list[PBlock]:
        """The smallest idle sBlock of at least n chunks, if it is not too large; its first n chunks are used."""
        fits = [
            s
            for s in self.stitched
            if not s.used and s.stream == stream and n <= len(s.chunks) <= n * self.options.reuse_limit
        ]
        if not fits:
            return []
        best = min(fits, key=lambda s: (len(s.chunks), s.number))
        self.count["reuses"] += 1
        return self._carve(best.chunks[:n])

    def _stitch(self, n: int, stream: int, level: int) -> list[PBlock]:
        """Free pBlocks, the largest first, until they have n chunks together; a new sBlock maps them."""
        if n * CHUNK < self.options.frag_limit or level < self.options.defrag_level:
            return []
        free = self.free.setdefault(stream, [])
        chosen: list[PBlock] = []
        missing = n
        for _, block in reversed(free):
            if missing <= 0:
                break
            chosen.append(block)
            missing -= len(block.chunks)
        if len(chosen) < 2 or missing > 0:
            return []
        return self._map(chosen, n, stream)

    def _new(self, n: int, stream: int, nbytes: int) -> list[PBlock]:
        """A new segment, cut to n chunks; or with `realloc` only what is missing, stitched to all that is free."""
        free = self.free.setdefault(stream, [])
        spare = sum(key[0] for key, _ in free)
        if self.options.realloc and n * CHUNK >= self.options.frag_limit and 0 < spare < n:
            chosen = [block for _, block in reversed(free)]
            nbytes = (n - spare) * CHUNK
            if not self._has_room(nbytes):
                return []
            return self._map([*chosen, self._segment(nbytes, stream)], n, stream)
        if not self._has_room(nbytes):
            return []
        block = self._segment(nbytes, stream)
        self._forget(block)
        self._cut(block, n)
        return [block]

    def _segment(self, nbytes: int, stream: int) -> PBlock:
        self.meter.reserve(nbytes)
        block = PBlock(self.end, [Chunk() for _ in range(nbytes // CHUNK)], stream)
        self.end += nbytes
        self._keep(block)
        return block

    def _map(self, chosen: list[PBlock], n: int, stream: int) -> list[PBlock]:
        chunks = [chunk for block in chosen for chunk in block.chunks][:n]
        blocks = self._carve(chunks)
        self.count["stitches"] += 1
        self.count["mapped_chunks"] += n
        self.stitched.append(SBlock(self.count["stitches"], chunks, stream))
        self._collect()
        return blocks

    def _carve(self, chunks: list[Chunk]) -> list[PBlock]:
        """Free pBlocks of exactly these chunks, in their order, cut out of the ones they are in."""
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

    def _use(self, blocks: Iterable[PBlock]) -> None:
        for block in blocks:
            block.free = False
            self.meter.add("allocated", len(block.chunks) * CHUNK)
            for chunk in block.chunks:
                chunk.used = True
                for s in chunk.mapped:
                    s.used += 1

    def _cut(self, block: PBlock, n: int) -> PBlock | None:
        """Cut a pBlock that is in no list to n chunks; the rest, if there is one, is free and listed."""
        if len(block.chunks) == n:
            return None
        rest = PBlock(block.address + n * CHUNK, block.chunks[n:], block.stream)
        block.chunks = block.chunks[:n]
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        self._keep(rest)
        return rest

    def _merge(self, block: PBlock) -> None:
        """List a freed pBlock, one with its free neighbours in the segment."""
        for left, right in ((block, block.after), (block.before, block)):
            if left is None or right is None or not (left.free and right.free):
                continue
            self._forget(right if left is block else left)
            left.chunks = left.chunks + right.chunks
            for chunk in right.chunks:
                chunk.block = left
            left.after = right.after
            if right.after is not None:
                right.after.before = left
            block = left
        self._keep(block)

    def _release(self) -> bool:
        """Give all free segments back to the device; sBlocks that map them go."""
        self.small.release()
        for free in self.free.values():
            for _, block in [entry for entry in free if entry[1].before is None and entry[1].after is None]:
                self._forget(block)
                self.meter.release(len(block.chunks) * CHUNK)
                for s in {s.number: s for chunk in block.chunks for s in chunk.mapped}.values():
                    self._unmap(s)
        return True

    def _collect(self) -> None:
        """Unmap idle sBlocks, those first that have been so longest, while there are too many."""
        total = sum(len(s.chunks) for s in self.stitched) * CHUNK
        for s in sorted((s for s in self.stitched[:-1] if not s.used), key=lambda s: (s.released, s.number)):
            if total <= self.options.auto_gc:
                return
            total -= len(s.chunks) * CHUNK
            self._unmap(s)

    def _unmap(self, s: SBlock) -> None:
        self.count["unmapped"] += 1
        self.stitched.remove(s)
        for chunk in s.chunks:
            chunk.mapped.remove(s)

    def _has_room(self, nbytes: int) -> bool:
        return self.small.has_room(nbytes)

    def _keep(self, block: PBlock) -> None:
        insort(self.free.setdefault(block.stream, []), (block.key, block))

    def _forget(self, block: PBlock) -> None:
        free = self.free[block.stream]
        del free[bisect_left(free, (block.key,))]


def run(requests: Requests, options: Options | None = None) -> Result:
    """Serve all requests; raises OutOfMemory where the device's memory ends."""
    lake = GMLake(options)
    handles: dict[int, list[PBlock] | Held] = {}
    for take, number, nbytes, stream, *_ in requests.memory():
        if take:
            handles[number] = lake.take(nbytes, stream)
            lake.meter.add("requested", nbytes)
        else:
            lake.meter.add("requested", -nbytes)
            lake.give_back(handles.pop(number))
    return lake.meter.result("gmlake", lake.count)
