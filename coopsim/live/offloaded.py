"""Offloads the values of a step to the host, and fetches them: by plan, or at once where there is none."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch

from coopsim.live.cells import Cell, Value
from coopsim.live.copies import Copies
from coopsim.live.host_area import HostArea
from coopsim.live.sent import Sent
from coopsim.observe.torch_private import DisableTorchDispatch

if TYPE_CHECKING:
    from coopsim.live.values import Values


class Offloaded:
    """The values of a step that are on the host. area: where they lie. sent: those that no plan has copied."""

    def __init__(self, values: "Values", area: HostArea, sent: Sent) -> None:
        self._values = values
        self.copies = Copies(area, self._streams)
        self.sent = sent

    def has(self, value: Value) -> bool:
        """Whether a value is on the host only, or on its way back."""
        cell, version = value
        return self.sent.has(value) or self.copies.has((cell.number, version))

    def send(self, cell: Cell) -> bool:
        """Copy a cell's bytes to the host, wait for it, and free the memory. False if the cell must stay.

        `fetch` brings them back. For steps without a plan, whose area on the host has no place for the copy.
        """
        storage = cell.ref()
        if storage is None or cell.gone or self._values.must_stay(cell):
            return False
        self._values.ledger.of_storage(storage)  # while it has an address: it may be met for the first time later
        copied = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
        _copy(storage, copied)
        self.sent.add(cell, copied)
        self.copies.offloads += 1
        self.copies.offloaded_bytes += storage.nbytes()
        self._values.evict((cell, cell.version))
        return True

    def reads(self, storage: torch.UntypedStorage) -> bool:
        """Whether a copy may still read a storage, whose memory must not move or go."""
        return self.copies.reads(storage)

    def offload(self, value: Value, at: int) -> None:
        """Begin to copy a value to the area's bytes from `at` on, if the program has it."""
        cell, version = value
        storage = cell.ref()
        if storage is not None and cell.version == version and not (cell.gone or self._values.must_stay(cell)):
            self.copies.offload((cell.number, version), storage, at)

    def leave(self, value: Value) -> None:
        """Free the memory of a value once it is on the host; it stays if it is not copied, or its address is known."""
        cell, version = value
        if not cell.gone and not cell.pinned and self.copies.leave((cell.number, version)):
            self._values.evict(value)

    def fetch(self, value: Value, leave: Collection[Cell] = ()) -> None:
        """Begin to fetch a value that is on the host only. leave: cells that must not be evicted for that."""
        cell, version = value
        if cell.gone and self.sent.has(value):
            self._return(cell, leave)
            return
        if cell.gone and cell.ref() is not None:
            allocate = partial(self._values.allocate, leave={*leave, cell})
            storage = self.copies.fetch((cell.number, version), allocate)
            if storage is not None:
                self._values.enter(storage)

    def arrive(self, value: Value) -> None:
        """Wait for a value that is on its way, and hand its memory to the program's storage."""
        cell, version = value
        storage = self.copies.arrive((cell.number, version))
        if storage is not None:
            self._hand_over(value, storage)

    def end(self) -> None:
        """The step is over."""
        self.copies.end()

    def _return(self, cell: Cell, leave: Collection[Cell]) -> None:
        """Copy back at once what was sent."""
        storage = self._values.allocate(cell.nbytes, leave={*leave, cell})
        self._values.enter(storage)
        _copy(self.sent.take(cell), storage)
        self._hand_over((cell, cell.version), storage)

    def _hand_over(self, value: Value, storage: torch.UntypedStorage) -> None:
        if self._values.streams is not None:
            self._values.streams.after_again(())
        self._values.ledger.ours(storage)
        self._values.assign(value, storage)

    def _streams(self) -> Iterable[torch.cuda.Stream]:
        return self._values.streams.seen if self._values.streams is not None else ()


def _copy(source: torch.UntypedStorage, to: torch.UntypedStorage) -> None:
    """Copy all bytes between device and host, on the current stream, and wait."""
    with DisableTorchDispatch():
        whole = (torch.empty(0, dtype=torch.uint8, device=s.device).set_(s) for s in (to, source))
        next(whole).copy_(next(whole))
