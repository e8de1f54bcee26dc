"""Order between the program's CUDA streams and the ops that are run again, which the program knows nothing of.

What the program has synchronised holds for its own ops. An op that is run again, on the stream that is current where
its result is missing, waits for all streams of the step, and every other stream waits for it before its next op.
"""

from collections.abc import Iterable
from typing import Any

import torch

from coopsim.live.cells import Cell
from coopsim.observe.torch_private import current_autograd_node


class Streams:
    """The streams of one step. Where it has a single one, nothing is ever waited for."""

    def __init__(self) -> None:
        self._seen: set[torch.cuda.Stream] = set()
        self._again: dict[torch.cuda.Stream, int] = {}  # by stream, ops that were run again
        self._waited: dict[tuple[torch.cuda.Stream, torch.cuda.Stream], int] = {}
        self._node: Any = None  # of autograd, whose ops ran last
        self._of_node: set[Cell] = set()

    def use(self, cells: Iterable[Cell]) -> None:
        """The program's next op, on the current stream, works with these."""
        stream = torch.cuda.current_stream()
        self._seen.add(stream)
        for cell in cells:
            cell.streams.add(stream)
            storage = cell.ref() if cell.made_again else None
            if storage is not None:  # when the program lets it go, it knows only of the block that it was given
                guard(storage, stream)
        self._wait(stream)

    def made(self, cells: Iterable[Cell]) -> None:
        """The op has made these."""
        node = current_autograd_node() if len(self._seen) > 1 else None
        if node is not self._node:
            self._node = node
            self._of_node.clear()
        if node is not None:
            self._of_node.update(cells)

    def needs(self, cell: Cell) -> bool:
        """Must it stay? Where a node of autograd ends, its gradients' addresses are asked for, past any dispatcher."""
        return cell in self._of_node and current_autograd_node() is self._node

    def before_again(self) -> None:
        """An op is about to be run again on the current stream."""
        stream = torch.cuda.current_stream()
        self._seen.add(stream)
        for other in self._seen:
            if other != stream:
                stream.wait_stream(other)

    def after_again(self, read: Iterable[torch.UntypedStorage]) -> None:
        """It has been, and has read these."""
        stream = torch.cuda.current_stream()
        self._again[stream] = self._again.get(stream, 0) + 1
        if len(self._seen) > 1:
            for storage in read:
                guard(storage, stream)

    def end(self) -> None:
        """The step is over: what the next one does comes after all that was run again."""
        self._node = None
        self._of_node.clear()
        for stream in self._seen:
            self._wait(stream)

    def _wait(self, stream: torch.cuda.Stream) -> None:
        for other, n in self._again.items():
            if other != stream and self._waited.get((stream, other)) != n:
                stream.wait_stream(other)
                self._waited[stream, other] = n


def guard(storage: torch.UntypedStorage, stream: torch.cuda.Stream) -> None:
    """The block must not be used again, once it is given back, before the stream has come so far."""
    torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).record_stream(stream)
