"""GMLake (Guo et al., ASPLOS 2024) on the requests of a program: large blocks are stitched from free ones. Own code.

Physical memory comes in chunks of 2 MiB. A *pBlock* is a run of a segment's chunks; an *sBlock* maps the chunks of
several pBlocks under addresses of its own, and may be handed out whenever all of them are free. Mapping costs calls,
never memory. Follows the released code, not the paper, where they differ (docs/allocators.md).

Left out: `max_split_size` and PyTorch's garbage collection (off by default), `set_per_process_memory_fraction`, an
address space that ends, the time that mapping takes; private pools are refused. Where the release would follow a null
pointer (a segment is returned while an sBlock that maps it is handed out in part), `faults` counts it.
"""

from dataclasses import dataclass

from coopsim.base.types import GIB, GRANULE, MIB, CoopsimError
from coopsim.simulate.allocators.serving.gmlake_blocks import Handle, PBlocks, SBlocks, bytes_of, key, stream_of
from coopsim.simulate.allocators.serving.gmlake_chunks import CHUNK, PBlock, SBlock, TickClock, Uses
from coopsim.simulate.allocators.serving.plain import (
    SMALL,
    SMALL_SEGMENT,
    BlockInUse,
    PlainBlock,
    Segments,
    rounded,
    segment_bytes,
)
from coopsim.simulate.allocators.serving.result import Result, ServingMeter, ServingOutOfMemory
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, DELAY, EMPTY, FREE, KIND, NUMBER, RECORD, STOP, STREAM, TICK
from coopsim.trace.requests import Requests

__all__ = ["CHUNK", "GIB", "GMLake", "GmlakeOptions", "Handle", "PBlock", "SBlock", "run"]

_DEFICIT_LEVEL = 4  #: the level at which `realloc` stitches what it made to what was free


@dataclass(frozen=True)
class GmlakeOptions:
    """GMLake's settings, by the names of its environment variables; bytes where those have MB or GB.

    `frag_limit`: smaller requests are never stitched. `reuse_limit`: an sBlock serves no request so many times smaller.
    `defrag_level`: 0 stitches before making new segments, 1 when the device is full, 2 after all free segments have
    been given back. `auto_gc`: above so many bytes of sBlocks, all that are not handed out are unmapped. `realloc`:
    make a segment only of what is missing beside the free blocks, and stitch it to them. As released, this makes at
    least 20 MiB where less than 10 are missing, and refuses requests below `frag_limit` that would fit.
    `exact_deficit`, of our own: with `realloc`, make exactly what is missing, and only for requests that may be
    stitched. `memory`: of the device, None for no end of it.
    """

    frag_limit: int = 512 * MIB
    reuse_limit: float = 10
    defrag_level: int = 0
    auto_gc: int = 1000 * GIB
    realloc: bool = False
    exact_deficit: bool = False
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.exact_deficit and not self.realloc:
            raise CoopsimError("exact_deficit changes what realloc does; set realloc, too")


class GMLake:
    """The allocator. `take` gives a handle that `give_back` wants; chunks and blocks are open to be looked at."""

    def __init__(self, options: GmlakeOptions | None = None) -> None:
        self.options = options or GmlakeOptions()
        self.meter = ServingMeter()
        self.small: dict[int, Segments] = {}  # by stream
        self.pblocks = PBlocks(self.meter)
        self.sblocks = SBlocks()
        self.clock = TickClock()
        self.uses: Uses[PlainBlock | PBlock] = Uses(self.clock)
        self.waiting: dict[PlainBlock | PBlock, Handle] = {}  # given back, but used by other streams
        self.reuses = 0

    @property
    def free(self) -> dict[int, list[tuple[tuple[int, int], PBlock]]]:
        """The free pBlocks, by stream."""
        return self.pblocks.free

    @property
    def stitched(self) -> list[SBlock]:
        """The sBlocks."""
        return self.sblocks.all

    @property
    def count(self) -> dict[str, int]:
        """What was done so far. After a fault, the release would have crashed or gone on in freed memory."""
        s = self.sblocks
        mapped = {"stitches": s.made, "reuses": self.reuses, "unmapped": s.unmapped, "mapped_chunks": s.mapped_chunks}
        return mapped | {"faults": s.faults}

    def take(self, nbytes: int, stream: int = 0) -> Handle:
        """Memory for a request.

        Raises OutOfMemory if the device has no more and nothing can be stitched, or where `realloc` refuses.
        """
        self._free_waited(wait=False)
        nbytes = rounded(nbytes)
        if nbytes <= SMALL:
            return self._take_small(nbytes, stream)
        n = -(-nbytes // CHUNK)
        blocks = (
            self._whole(n, stream)
            or self._reuse(n, stream)
            or self._stitch(n, stream, level=0)
            or self._new(n, stream)
            or self._stitch(n, stream, level=1)
            or self._new_after_release(n, stream)
            or self._stitch(n, stream, level=2)
        )
        if not blocks:
            raise ServingOutOfMemory(n * CHUNK, self.meter.now["reserved"], self.options.memory or 0)
        return blocks

    def give_back(self, handle: Handle) -> None:
        """Free what `take` gave; where other streams use it, when they are done."""
        first = key(handle)
        if self.uses.guard(first):
            self.waiting[first] = handle
            self.meter.wait(bytes_of(handle))
            return
        if isinstance(first, PBlock):
            (first.lent or first).last = self.clock.record(first.stream)
        self._free(handle)

    def record_stream(self, handle: Handle, stream: int) -> None:
        """That stream uses what `take` gave."""
        if stream != stream_of(handle, self.small):
            self.uses.add(key(handle), stream)

    def empty_cache(self) -> None:
        """Give all free segments back to the device, and unmap all sBlocks that are not handed out."""
        self._release()
        self.sblocks.collect(self.clock)

    def _whole(self, n: int, stream: int) -> list[PBlock]:
        """The smallest free pBlock of at least n chunks, cut to n."""
        block = self.pblocks.smallest(n, stream)
        return [] if block is None else self._use([block])

    def _reuse(self, n: int, stream: int) -> list[PBlock]:
        """The smallest idle sBlock of at least n chunks, if it is not too large; its first n chunks are used."""
        s = self.sblocks.idle(n, n * self.options.reuse_limit, stream)
        if s is None:
            return []
        self.reuses += 1
        return self._use(self.pblocks.carve(s.chunks[:n]), s)

    def _stitch(self, n: int, stream: int, level: int) -> list[PBlock]:
        """Free pBlocks, the largest first, until they have n chunks together; a new sBlock maps them.

        There must be two free ones, even if one is large enough, as it may be where waiting for events has freed it.
        """
        if n * CHUNK < self.options.frag_limit or level < self.options.defrag_level:
            return []
        chosen = self.pblocks.largest(n, stream)
        if not chosen or len(self.free[stream]) < 2:
            return []
        blocks = self.pblocks.carve([chunk for block in chosen for chunk in block.chunks][:n])
        self._use(blocks, self.sblocks.stitch(blocks, stream))
        if self.sblocks.stitched > self.options.auto_gc:
            self.sblocks.collect(self.clock)
        return blocks

    def _new(self, n: int, stream: int) -> list[PBlock]:
        """A new segment, cut to n chunks; or with `realloc` one of what is missing, stitched to what is free."""
        missing = n - self._spare(n, stream)
        if missing <= 0:
            return []
        exact = self.options.exact_deficit and missing < n
        nbytes = missing * CHUNK if exact else segment_bytes(missing * CHUNK)
        if not self._has_room(nbytes):
            return []
        block = self.pblocks.segment(nbytes, stream)
        if len(block.chunks) < n:
            return self._stitch(n, stream, _DEFICIT_LEVEL)
        self.pblocks.first(block, n)
        return self._use([block])

    def _spare(self, n: int, stream: int) -> int:
        """How many free chunks `realloc` counts for a request of n."""
        if not self.options.realloc:
            return 0
        spare = self.pblocks.spare(stream)
        unsuited = n * CHUNK < self.options.frag_limit or spare >= n
        return 0 if self.options.exact_deficit and unsuited else spare

    def _new_after_release(self, n: int, stream: int) -> list[PBlock]:
        self._release()
        return self._new(n, stream)

    def _take_small(self, nbytes: int, stream: int) -> BlockInUse:
        pool = self.small.setdefault(stream, Segments(self.meter, GRANULE))
        block = pool.take(nbytes)
        if block is None:
            if not self._has_room(SMALL_SEGMENT):
                self._release()
            if not self._has_room(SMALL_SEGMENT):
                raise ServingOutOfMemory(nbytes, self.meter.now["reserved"], self.options.memory or 0)
            block = pool.make(SMALL_SEGMENT, nbytes)
        return BlockInUse(pool, block)

    def _use(self, blocks: list[PBlock], s: SBlock | None = None) -> list[PBlock]:
        """Hand out pBlocks, as the first chunks of an sBlock if there is one."""
        if s is not None:
            s.lent = True
        for block in blocks:
            block.free, block.lent = False, s
            self.meter.add("allocated", len(block.chunks) * CHUNK)
            for chunk in block.chunks:
                chunk.used = True
                for other in chunk.mapped:
                    other.used += 1
        return blocks

    def _free(self, handle: Handle) -> None:
        if isinstance(handle, BlockInUse):
            handle.pool.give_back(handle.block)
            return
        s = handle[0].lent
        for block in handle:
            self.meter.add("allocated", -len(block.chunks) * CHUNK)
            block.free, block.lent = True, None
            if s is not None:
                block.last = max(block.last, s.last)
            for chunk in block.chunks:
                chunk.used = False
                for other in chunk.mapped:
                    other.used -= 1
            self.pblocks.merge(block)
        if s is not None:
            s.lent = False
            if s.broken:
                self.sblocks.fault(s)

    def _free_waited(self, *, wait: bool) -> None:
        """Free what waits for other streams, if they are done; or wait until they are."""
        for first in self.uses.over(wait=wait):
            handle = self.waiting.pop(first)
            nbytes = bytes_of(handle)
            self._free(handle)
            self.meter.wait(-nbytes)

    def _release(self) -> None:
        """Give all free segments back to the device; sBlocks that map them go."""
        self._free_waited(wait=True)
        for segment in self.pblocks.whole():
            self.sblocks.leave(segment)
            self.pblocks.drop(segment)
        for pool in self.small.values():
            pool.release()

    def _has_room(self, nbytes: int) -> bool:
        memory = self.options.memory
        return memory is None or self.meter.now["reserved"] + self.sblocks.kept + nbytes <= memory


def run(requests: Requests, options: GmlakeOptions | None = None) -> Result:
    """Serve all requests, record_stream, empty_cache and the device's clock included.

    Raises OutOfMemory where the device's memory ends, CoopsimError for private pools.
    """
    lake = GMLake(options)
    handles: dict[int, Handle] = {}
    asked: dict[int, int] = {}
    for row in requests.rows.tolist():
        kind, number, amount, stream = row[KIND], row[NUMBER], row[AMOUNT], row[STREAM]
        if kind == ALLOCATE:
            handles[number] = lake.take(amount, stream)
            asked[number] = amount
            lake.meter.add("requested", amount)
        elif kind == FREE:
            lake.meter.add("requested", -asked.pop(number))
            lake.give_back(handles.pop(number))
        elif kind == RECORD:
            lake.record_stream(handles[number], stream)
        elif kind == EMPTY:
            lake.empty_cache()
        elif kind == TICK:
            lake.clock.advance(amount)
        elif kind == DELAY:
            lake.clock.delay_events(amount)
        elif kind != STOP:
            raise CoopsimError("gmlake serves no private pools (CUDA graphs, torch.cuda.use_mem_pool)")
    return lake.meter.result("gmlake", lake.count)
