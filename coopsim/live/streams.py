"""Orders recomputations among the program's CUDA streams.

The program synchronises its own ops only. An op that is run again, on the stream that is current where its result is
missing, waits for all streams of the step, and every other stream waits for it before its next op.
"""

from collections.abc import Iterable
from typing import Any

import torch

from coopsim.live.tracked import TrackedStorage
from coopsim.record.observe.torch_private import current_autograd_node, current_device, raw_stream


class Streams:
    """The streams that one step uses. In a step with a single stream, nothing is waited for."""

    def __init__(self) -> None:
        #: Of the step's ops so far, and the default one, which the observer's ops run on.
        self.seen = {torch.cuda.default_stream()}
        self._numbers = {0: 0}  # by handle
        self._again: dict[torch.cuda.Stream, int] = {}  # by stream, ops that were run again
        self._waited: dict[tuple[torch.cuda.Stream, torch.cuda.Stream], int] = {}
        self._node: Any = None  # of autograd, whose ops ran last
        self._of_node: set[TrackedStorage] = set()

    def number(self) -> int:
        """The number of the current stream: 0 is the default one, and others have theirs in order of appearance."""
        return self._numbers.setdefault(raw_stream(current_device()), len(self._numbers))

    def guard(self, storage: torch.UntypedStorage, tracked: TrackedStorage) -> None:
        """Let the block of a tracked storage not be reused, once freed, before the streams that use it have done so."""
        if len(self.seen) > 1:
            for stream in {torch.cuda.default_stream(), *tracked.streams}:
                guard(storage, stream)

    def use(self, storages: Iterable[TrackedStorage]) -> None:
        """Note that the program's next op, on the current stream, uses these storages, and wait for recomputations."""
        stream = torch.cuda.current_stream()
        self.seen.add(stream)
        for tracked in storages:
            tracked.streams.add(stream)
            storage = tracked.ref() if tracked.made_again else None
            if storage is not None:  # when the program lets it go, it knows only of the block that it was given
                guard(storage, stream)
        self._wait(stream)

    def made(self, storages: Iterable[TrackedStorage]) -> None:
        """Note that the program's latest op, on the current stream, has made these tracked storages."""
        storages = list(storages)
        if len(self.seen) > 1:
            stream = torch.cuda.current_stream()
            for tracked in storages:
                tracked.streams.add(stream)
        node = current_autograd_node() if len(self.seen) > 1 else None
        if node is not self._node:
            self._node = node
            self._of_node.clear()
        if node is not None:
            self._of_node.update(storages)

    def needs(self, tracked: TrackedStorage) -> bool:
        """Whether a storage must not be evicted: made by the running node of autograd, which reads it when it ends.

        It reads its gradients' addresses past any dispatcher.
        """
        return tracked in self._of_node and current_autograd_node() is self._node

    def before_again(self) -> None:
        """Let the current stream, on which an op is about to run again, wait for all others."""
        stream = torch.cuda.current_stream()
        self.seen.add(stream)
        for other in self.seen:
            if other != stream:
                stream.wait_stream(other)

    def after_again(self, read: Iterable[torch.UntypedStorage]) -> None:
        """Note that an op has run again on the current stream, and has read these storages."""
        stream = torch.cuda.current_stream()
        self._again[stream] = self._again.get(stream, 0) + 1
        if len(self.seen) > 1:
            for storage in read:
                guard(storage, stream)

    def end(self) -> None:
        """Let every stream wait for all recomputations, so that the next step comes after them."""
        self._node = None
        self._of_node.clear()
        for stream in self.seen:
            self._wait(stream)

    def _wait(self, stream: torch.cuda.Stream) -> None:
        for other, n in self._again.items():
            if other != stream and self._waited.get((stream, other)) != n:
                stream.wait_stream(other)
                self._waited[stream, other] = n


def guard(storage: torch.UntypedStorage, stream: torch.cuda.Stream) -> None:
    """Let the allocator not reuse a storage's block, once freed, before `stream` has run all its present work."""
    torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).record_stream(stream)
