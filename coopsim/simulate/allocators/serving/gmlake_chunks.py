"""CUDA events on a clock of ticks, and the blocks that wait for some before they are free.

Physical memory in chunks; pBlocks, which are runs of a segment's chunks; sBlocks, which map chunks of several.
"""

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from coopsim.simulate.allocators.serving.plain import ROUND

Owner = TypeVar("Owner")


class TickEvent(NamedTuple):
    """`number` counts the events of a stream; it completes when the clock shows `done`."""

    number: int
    done: int


NEVER = TickEvent(0, 0)  #: not recorded yet, which counts as completed


class TickClock:
    """Of the device. An event completes `delay` ticks after it is recorded."""

    def __init__(self) -> None:
        self.now = self.delay = 0
        self._numbers: dict[int, int] = {}  # by stream

    def advance(self, ticks: int) -> None:
        """Let so many ticks pass."""
        self.now += ticks

    def wait_until(self, tick: int) -> None:
        """Let time pass until then, if it has not."""
        self.now = max(self.now, tick)

    def delay_events(self, ticks: int) -> None:
        """Let events that are recorded from now on complete after so many ticks."""
        self.delay = ticks

    def record(self, stream: int) -> TickEvent:
        """An event on that stream."""
        self._numbers[stream] = number = self._numbers.get(stream, 0) + 1
        return TickEvent(number, self.now + self.delay)


class Uses(Generic[Owner]):
    """Streams that use a block besides its own (record_stream), and the events that guard it once it is given back."""

    def __init__(self, clock: TickClock) -> None:
        self.clock = clock
        self._streams: dict[Owner, set[int]] = {}
        self._pending: dict[Owner, int] = {}  # events
        self._queues: dict[int, deque[tuple[int, Owner]]] = {}  # by stream: when done, for which block

    def add(self, block: Owner, stream: int) -> None:
        """That stream uses the block."""
        self._streams.setdefault(block, set()).add(stream)

    def guard(self, block: Owner) -> bool:
        """The block is given back: must it wait? Records an event on each stream that used it."""
        streams = self._streams.pop(block, set())
        for stream in sorted(streams):
            self._queues.setdefault(stream, deque()).append((self.clock.now + self.clock.delay, block))
        if streams:
            self._pending[block] = len(streams)
        return bool(streams)

    def over(self, *, wait: bool) -> list[Owner]:
        """The blocks whose events have completed; with `wait` all, and the clock runs until then.

        An event that has not completed hides those behind it on its stream.
        """
        found = []
        for queue in self._queues.values():
            while queue and (wait or queue[0][0] <= self.clock.now):
                done, block = queue.popleft()
                self.clock.wait_until(done)
                self._pending[block] -= 1
                if not self._pending[block]:
                    del self._pending[block]
                    found.append(block)
        return found


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

    def __init__(self, address: int, chunks: list[Chunk], stream: int, last: TickEvent = NEVER) -> None:
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

    def __init__(self, number: int, chunks: list[Chunk], stream: int, last: TickEvent) -> None:
        self.number, self.chunks, self.stream, self.last = number, chunks, stream, last
        self.lent = self.broken = False
        self.used = 0
        for chunk in chunks:
            self.used += chunk.used
            chunk.mapped.append(self)
