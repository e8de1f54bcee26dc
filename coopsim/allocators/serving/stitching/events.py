"""CUDA events on a clock of ticks, and the blocks that wait for some before they are free."""

from collections import deque
from typing import Generic, NamedTuple, TypeVar

Block = TypeVar("Block")


class Event(NamedTuple):
    """`number` counts the events of a stream; it completes when the clock shows `done`."""

    number: int
    done: int


NEVER = Event(0, 0)  #: not recorded yet, which counts as completed


class Clock:
    """Of the device. An event completes `delay` ticks after it is recorded."""

    def __init__(self) -> None:
        self.now = self.delay = 0
        self._numbers: dict[int, int] = {}  # by stream

    def record(self, stream: int) -> Event:
        """An event on that stream."""
        self._numbers[stream] = number = self._numbers.get(stream, 0) + 1
        return Event(number, self.now + self.delay)


class Uses(Generic[Block]):
    """Streams that use a block besides its own (record_stream), and the events that guard it once it is given back."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._streams: dict[Block, set[int]] = {}
        self._pending: dict[Block, int] = {}  # events
        self._queues: dict[int, deque[tuple[int, Block]]] = {}  # by stream: when done, for which block

    def add(self, block: Block, stream: int) -> None:
        """That stream uses the block."""
        self._streams.setdefault(block, set()).add(stream)

    def guard(self, block: Block) -> bool:
        """The block is given back: must it wait? Records an event on each stream that used it."""
        streams = self._streams.pop(block, set())
        for stream in sorted(streams):
            self._queues.setdefault(stream, deque()).append((self.clock.now + self.clock.delay, block))
        if streams:
            self._pending[block] = len(streams)
        return bool(streams)

    def over(self, *, wait: bool) -> list[Block]:
        """The blocks whose events have completed; with `wait` all, and the clock runs until then.

        An event that has not completed hides those behind it on its stream.
        """
        found = []
        for queue in self._queues.values():
            while queue and (wait or queue[0][0] <= self.clock.now):
                done, block = queue.popleft()
                self.clock.now = max(self.clock.now, done)
                self._pending[block] -= 1
                if not self._pending[block]:
                    del self._pending[block]
                    found.append(block)
        return found
