"""Orders what live does among the program's CUDA streams: all its waits, events and uses of record_stream are here.

The program synchronises its own ops only. An op that is run again, on the stream that is current where its result is
missing, waits for all streams of the step, and every other stream waits for it before its next op. Copies of a plan go
on an engine, a stream of its own for each direction, after all that the step's streams were given before.
"""

from collections.abc import Iterable
from functools import cache

import torch

from coopsim.live.copies import Engines
from coopsim.live.tracked import TrackedStorage
from coopsim.record.observe.torch_private import DisableTorchDispatch, current_device, current_graph_task_id, raw_stream


class Streams(Engines):
    """The streams of a program's steps: while they use a single one, only copies are waited for.

    They outlast a step: in the next, a stream may read what was run again in this one, and has waited for its first run
    only.
    """

    def __init__(self) -> None:
        #: Of all ops so far, and the default one, which the observer's ops run on.
        self.seen = {torch.cuda.default_stream()}
        self._device = current_device()
        self._known: dict[int, torch.cuda.Stream] = {}  # by handle: torch.cuda.current_stream() takes the host 6 us
        self._numbers: dict[int, int] = {}  # by handle
        self._again: dict[torch.cuda.Stream, int] = {}  # by stream, ops that were run again, and values that came back
        self._waited: dict[tuple[torch.cuda.Stream, torch.cuda.Stream], int] = {}
        self._of_backward: set[TrackedStorage] = set()
        self.begin_step()

    def begin_step(self) -> None:
        """A step begins: streams are numbered anew."""
        self._numbers = {0: 0}

    def current(self) -> torch.cuda.Stream:
        """The stream that is current on this thread."""
        handle = raw_stream(self._device)
        found = self._known.get(handle)
        if found is None:
            found = self._known[handle] = torch.cuda.current_stream()
        return found

    def number(self) -> int:
        """The number of the current stream: 0 is the default one, and others have theirs in order of appearance."""
        return self._numbers.setdefault(raw_stream(self._device), len(self._numbers))

    # -- ops ---------------------------------------------------------------------------------------------------------

    def guard(self, storage: torch.UntypedStorage, tracked: TrackedStorage) -> None:
        """Let the block of a tracked storage not be reused, once freed, before the streams that use it have done so."""
        if len(self.seen) > 1:
            for stream in {torch.cuda.default_stream(), *tracked.streams}:
                _guard(storage, stream)

    def use(self, storages: Iterable[TrackedStorage]) -> None:
        """Note that the program's next op, on the current stream, uses these storages, and wait for recomputations."""
        stream = self.current()
        self.seen.add(stream)
        for tracked in storages:
            tracked.streams.add(stream)
            storage = tracked.ref() if len(self.seen) > 1 and tracked.made_again else None
            if storage is not None:  # when the program lets it go, it knows only of the block that it was given
                _guard(storage, stream)
        self._wait_for_again(stream)

    def made(self, storages: Iterable[TrackedStorage]) -> None:
        """Note that the program's latest op, on the current stream, has made these tracked storages."""
        if len(self.seen) == 1:
            return
        stream, storages = self.current(), list(storages)
        for tracked in storages:
            tracked.streams.add(stream)
            tracked.made_again = False
        if current_graph_task_id() >= 0:
            self._of_backward.update(storages)
        else:
            self._of_backward.clear()

    def needs(self, tracked: TrackedStorage) -> bool:
        """Whether a storage must not be evicted, as the running backward pass has made it.

        Where gradients go from stream to stream, autograd reads their addresses past any dispatcher.
        """
        return tracked in self._of_backward and current_graph_task_id() >= 0

    def before_again(self) -> None:
        """Let the current stream, on which an op is about to run again, wait for all others."""
        stream = self.current()
        self.seen.add(stream)
        self._wait_for_all(stream)

    def after_again(self, read: Iterable[torch.UntypedStorage]) -> None:
        """Note that an op has run again on the current stream, and has read these storages."""
        stream = self.current()
        self._again[stream] = self._again.get(stream, 0) + 1
        if len(self.seen) > 1:
            for storage in read:
                _guard(storage, stream)

    def observed(self) -> None:
        """Note that the observer may have run ops again, and fetched values, on the default stream."""
        stream = torch.cuda.default_stream()
        self._again[stream] = self._again.get(stream, 0) + 1

    def end(self) -> None:
        """Let every stream wait for all recomputations, so that the next step comes after them."""
        self._of_backward.clear()
        for stream in self.seen:
            self._wait_for_again(stream)

    # -- copies (copies.py, Engines) ------------------------------------------------------------------------------

    def begin(self, way: int, to: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
        """Begin a copy on an engine; return an event at its end. The host waits for neither."""
        engine, current = engines(self._device)[way], self.current()
        self.seen.add(current)
        self._wait_for_all(engine)
        torch.cuda.set_stream(engine)  # torch.cuda.stream() takes the host three times as long
        try:
            with DisableTorchDispatch():
                to.copy_(source, non_blocking=True)
        finally:
            torch.cuda.set_stream(current)
        end: torch.cuda.Event = engine.record_event()
        return end

    def wait(self, _way: int, end: torch.cuda.Event) -> None:
        """Let all that the step's streams are given from now on come after a copy."""
        for stream in self.seen | {self.current()}:
            stream.wait_event(end)

    def finish(self) -> None:
        """Let the host wait for all that the device was given."""
        torch.cuda.synchronize()

    # ----------------------------------------------------------------------------------------------------------------

    def _wait_for_all(self, stream: torch.cuda.Stream) -> None:
        for other in self.seen:
            if other != stream:
                stream.wait_stream(other)

    def _wait_for_again(self, stream: torch.cuda.Stream) -> None:
        for other, n in self._again.items():
            if other != stream and self._waited.get((stream, other)) != n:
                stream.wait_stream(other)
                self._waited[stream, other] = n


@cache
def engines(_device: int) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """The streams of a device's copies, one for each direction."""
    return torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _guard(storage: torch.UntypedStorage, stream: torch.cuda.Stream) -> None:
    """Let the allocator not reuse a storage's block, once freed, before `stream` has run all its present work."""
    torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).record_stream(stream)
