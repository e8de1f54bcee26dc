"""Offloads the values of a step to the host, and fetches them: by plan, or at once where there is none."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

import torch

from coopsim.live.cells import Cell, Value
from coopsim.live.copies import Copies, bytes_of
from coopsim.live.host_area import HostArea, HostBytes
from coopsim.live.ledger import LiveLedger
from coopsim.live.sent import Sent
from coopsim.live.streams import Streams
from coopsim.observe.torch_private import DisableTorchDispatch


class OnDevice(Protocol):
    """The values of a step that have memory on the device (values.py)."""

    kind: str
    ledger: LiveLedger
    streams: Streams | None

    def must_stay(self, cell: Cell) -> bool:
        """Whether a cell's address is in use."""

    def evict(self, value: Value) -> None:
        """Free the memory of a value."""

    def bring(self, wanted: Iterable[Value]) -> None:
        """Make the wanted values again that have no memory."""

    def allocate(self, nbytes: int, leave: Collection[Cell] = ()) -> torch.UntypedStorage:
        """Memory of so many bytes. leave: cells that must not be evicted for that."""

    def enter(self, storage: torch.UntypedStorage) -> None:
        """Count a storage of ours."""

    def assign(self, value: Value, storage: torch.UntypedStorage) -> None:
        """Give a value's bytes to the program's storage if that is empty and has this version; else hold them."""


class Offloaded:
    """The values of a step that are on the host. area: where they lie. sent: those that no plan has copied."""

    def __init__(self, values: OnDevice, area: HostArea, sent: Sent) -> None:
        self._values, self._area = values, area
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
        copied = _new(storage.nbytes())
        _copy(bytes_of(storage), copied.tensor())
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

    def begin(self, places: Mapping[Cell, int]) -> None:
        """Begin to follow a plan: only these cells are on the host then, each in the area from its place on.

        A cell whose address is known stays on the device, too.
        """
        others = [cell for cell in self.sent.cells if cell not in places]
        self._values.bring([(cell, cell.version) for cell in others if cell.ref() is not None])
        self._gather(places)
        for cell, at in places.items():
            if not cell.gone:
                self.offload((cell, cell.version), at)
                self.leave((cell, cell.version))

    def _gather(self, places: Mapping[Cell, int]) -> None:
        """Move to the area what is elsewhere on the host, and what is at another place of the area."""
        here = {cell: self._area.place(at, cell.nbytes) for cell, at in places.items() if self.sent.has((cell, 0))}
        found = {cell: self.sent.take(cell) for cell in here}
        moved = [cell for cell in here if found[cell] != here[cell]]
        if moved and self._values.kind == "cuda":
            torch.cuda.synchronize()
        for cell in moved:
            if found[cell].storage is here[cell].storage:  # what is copied first may lie where it is now
                found[cell], now = _new(cell.nbytes), found[cell]
                _copy(now.tensor(), found[cell].tensor())
        for cell in moved:
            _copy(found.pop(cell).tensor(), here[cell].tensor())
        for cell, place in here.items():
            self.copies.found((cell.number, cell.version), place.at, place.nbytes)

    def keep(self, cells: Iterable[Cell]) -> None:
        """Leave on the host, for the next step, what is only there."""
        for cell in cells:
            place = self.copies.place((cell.number, cell.version))
            if place is not None:
                self.sent.add(cell, place)

    def end(self) -> None:
        """The step is over."""
        self.copies.end()

    def _return(self, cell: Cell, leave: Collection[Cell]) -> None:
        """Copy back at once what was sent."""
        storage = self._values.allocate(cell.nbytes, leave={*leave, cell})
        self._values.enter(storage)
        _copy(self.sent.take(cell).tensor(), bytes_of(storage))
        self._hand_over((cell, cell.version), storage)

    def _hand_over(self, value: Value, storage: torch.UntypedStorage) -> None:
        if self._values.streams is not None:
            self._values.streams.after_again(())
        self._values.ledger.ours(storage)
        self._values.assign(value, storage)

    def _streams(self) -> Iterable[torch.cuda.Stream]:
        return self._values.streams.seen if self._values.streams is not None else ()


def _new(nbytes: int) -> HostBytes:
    """Ordinary memory of the host."""
    return HostBytes(torch.UntypedStorage(nbytes), 0, nbytes)  # type: ignore[no-untyped-call]


def _copy(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy all bytes between device and host, on the current stream, and wait."""
    with DisableTorchDispatch():
        to.copy_(source)
