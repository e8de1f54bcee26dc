"""The copy engines: one for each direction, beside the ops."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from coopsim.observe.torch_private import DisableTorchDispatch

OUT, BACK = 0, 1  #: directions: to the host, from the host

Mark = Any  #: the end of a copy, as its engines know it
Streams = Iterable[torch.cuda.Stream]


class Engines(Protocol):
    """Copies in each direction go in the order in which they begin."""

    def begin(self, way: int, to: torch.Tensor, source: torch.Tensor, streams: Streams, /) -> Mark:
        """Begin a copy, after all that `streams` and the current stream have been given; return a mark of its end."""

    def wait(self, way: int, end: Mark, /) -> None:
        """Let the ops that follow come after the end of a copy."""


class CudaEngines:
    """A stream of its own for each direction, and an event at the end of each copy. The host waits for none."""

    def __init__(self) -> None:
        self._streams = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def begin(self, way: int, to: torch.Tensor, source: torch.Tensor, streams: Streams) -> Mark:
        """Begin a copy (Engines); the mark is an event."""
        engine = self._streams[way]
        for stream in {torch.cuda.current_stream(), *streams}:
            engine.wait_stream(stream)
        with DisableTorchDispatch(), torch.cuda.stream(engine):
            to.copy_(source, non_blocking=True)
        return engine.record_event()

    def wait(self, _way: int, end: Mark) -> None:
        """Let the current stream wait for a copy's event."""
        torch.cuda.current_stream().wait_event(end)


class LateEngines:
    """On the CPU: a copy is made when it is waited for, the latest moment at which it may end on a GPU.

    So what a GPU's engines could read or overwrite out of turn shows in the numbers.
    """

    def __init__(self) -> None:
        self._waiting: tuple[deque[Callable[[], object]], ...] = deque(), deque()
        self._made = [0, 0]

    def begin(self, way: int, to: torch.Tensor, source: torch.Tensor, _streams: Streams) -> Mark:
        """Put a copy at the end of its queue (Engines); the mark is its number."""
        self._waiting[way].append(lambda: to.copy_(source))
        return self._made[way] + len(self._waiting[way]) - 1

    def wait(self, way: int, end: Mark) -> None:
        """Make the copies up to this one."""
        with DisableTorchDispatch():
            while self._made[way] <= end:
                self._waiting[way].popleft()()
                self._made[way] += 1


def engines_of(kind: str) -> Engines:
    """The engines of a device of this kind, "cuda" or "cpu"."""
    return CudaEngines() if kind == "cuda" else LateEngines()
