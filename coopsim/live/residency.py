"""Where each value of a step is: on the device, on the host, being copied, or nowhere, so that it has to be made again.

A value is a version of a storage's bytes, and a cell a storage of the step (cells.py). To evict is to free the memory
of a value that is on the host, or can be made again.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

import torch

from coopsim.live import hollow
from coopsim.live.cells import Cell, Value
from coopsim.live.host.area import HostArea, HostBytes
from coopsim.live.host.copies import Allocate, Copies, Sent, bytes_of
from coopsim.live.ledger import LiveLedger
from coopsim.live.streams import Streams, guard
from coopsim.observe.torch_private import DisableTorchDispatch


class Where(Enum):
    """Where a value is. HOST: there only, or on its way back."""

    DEVICE = auto()
    HOST = auto()
    NOWHERE = auto()


class Residency:
    """The memory of the values of one step, on devices of one kind, "cuda" or "cpu", and on the host.

    area: of the host, where the copies of plans lie. sent: what steps without a plan have copied, and what the step
    before has left on the host. evictions, recomputes: how many there were in this step.
    """

    def __init__(self, kind: str, ledger: LiveLedger, area: HostArea, sent: Sent) -> None:
        self.kind, self.ledger = kind, ledger
        self._area, self._sent = area, sent
        #: Evicted cells, by key, in order of eviction.
        self.gone: dict[int, Cell] = {cell.key: cell for cell in sent.begin()}
        self.streams = Streams() if kind == "cuda" else None  #: None on the CPU
        self.copies = Copies(area, self._streams_seen)
        self.evictions = self.recomputes = 0

    def where(self, value: Value) -> Where:
        """Where a value is."""
        if self.memory_of(value) is not None:
            return Where.DEVICE
        return Where.HOST if self.on_host(value) else Where.NOWHERE

    def count(self, *, evictions: int = 0, recomputes: int = 0) -> None:
        """Count what was evicted and run again."""
        self.evictions += evictions
        self.recomputes += recomputes

    # -- on the device -----------------------------------------------------------------------------------------------

    def memory_of(self, value: Value) -> torch.UntypedStorage | None:
        """A storage that has the bytes of a value: the one held for it, or the program's; None if there is none."""
        cell, version = value
        held = cell.held.get(version)
        if held is not None:
            return held
        return cell.ref() if cell.version == version and not cell.gone else None

    def evicted(self, storage: torch.UntypedStorage) -> Cell | None:
        """The cell of a storage that is evicted; None for any other."""
        cell = self.gone.get(storage._cdata)
        return cell if cell is not None and cell.ref() is storage else None

    def must_stay(self, cell: Cell) -> bool:
        """Whether a cell must be neither evicted nor moved, as its address is in use.

        The program or autograd knows it, or a copy to the host reads it.
        """
        storage = cell.ref()
        copied = storage is not None and self.copies.reads(storage)
        return cell.pinned or copied or (self.streams is not None and self.streams.needs(cell))

    def evict(self, value: Value) -> None:
        """Free the memory of a value: let go of it if it is held, and empty its storage if that has this version.

        The storage keeps its memory if it must stay; a value without memory is left as it is.
        """
        cell, version = value
        cell.held.pop(version, None)
        storage = cell.ref()
        if cell.version != version or cell.gone or storage is None or self.must_stay(cell):
            return
        for stream in cell.streams:
            guard(storage, stream)
        cell.emptied()
        self.gone[cell.key] = cell
        hollow.empty(storage)
        self.ledger.emptied(storage)
        self.evictions += 1

    def assign(self, value: Value, storage: torch.UntypedStorage) -> None:
        """Give a value's bytes to the program's storage if that is empty and has this version; else hold them."""
        cell, version = value
        theirs = cell.ref() if cell.version == version else None
        if theirs is None:
            cell.held[version] = storage
        elif cell.gone:
            cell.filled()
            del self.gone[cell.key]
            hollow.fill(theirs, storage)
            self.ledger.emptied(storage)
            self.ledger.filled(theirs)

    def enter(self, storage: torch.UntypedStorage) -> None:
        """Count a storage of ours."""
        self.ledger.of(bytes_of(storage))

    def move(self, storage: torch.UntypedStorage) -> None:
        """Move the bytes of a storage to newly allocated memory, and free the old; its tensors stay valid."""
        with DisableTorchDispatch():
            hollow.fill(storage, clone(storage))

    def take_back(self, cell: Cell) -> None:
        """Take over a cell that the observer has evicted."""
        self.gone[cell.key] = cell

    def hand_over(self) -> None:
        """Forget what is evicted, as the observer knows it from now on."""
        self.gone.clear()

    # -- on the host -------------------------------------------------------------------------------------------------

    def on_host(self, value: Value) -> bool:
        """Whether a value is on the host only, or on its way back."""
        cell, version = value
        return self._sent.has(value) or self.copies.has((cell.number, version))

    @property
    def sent_bytes(self) -> int:
        """Bytes of the values that are on the host without a plan."""
        return self._sent.nbytes

    @property
    def sent(self) -> list[Cell]:
        """The cells of the values that are on the host without a plan."""
        return self._sent.cells

    def send(self, cell: Cell) -> bool:
        """Copy a cell's bytes to the host, wait for it, and free the memory. False if the cell must stay.

        `fetch` brings them back. For steps without a plan, whose area on the host has no place for the copy.
        """
        storage = cell.ref()
        if storage is None or cell.gone or self.must_stay(cell):
            return False
        self.ledger.of_storage(storage)  # while it has an address: it may be met for the first time later
        copied = _new(storage.nbytes())
        _copy(bytes_of(storage), copied.tensor())
        self._sent.add(cell, copied)
        self.copies.count(storage.nbytes())
        self.evict((cell, cell.version))
        return True

    def offload(self, value: Value, at: int) -> None:
        """Begin to copy a value to the area's bytes from `at` on, if the program has it."""
        cell, version = value
        storage = cell.ref()
        if storage is not None and cell.version == version and not (cell.gone or self.must_stay(cell)):
            self.copies.offload((cell.number, version), storage, at)

    def leave(self, value: Value) -> None:
        """Free the memory of a value once it is on the host; it stays if it is not copied, or its address is known."""
        cell, version = value
        if not cell.gone and not cell.pinned and self.copies.leave((cell.number, version)):
            self.evict(value)

    def fetch(self, value: Value, allocate: Allocate) -> None:
        """Begin to fetch a value that is on the host only, to memory that `allocate` gives."""
        cell, version = value
        if cell.gone and self._sent.has(value):
            storage = allocate(cell.nbytes)
            self.enter(storage)
            _copy(self._sent.take(cell).tensor(), bytes_of(storage))
            self._hand_over(value, storage)
        elif cell.gone and cell.ref() is not None:
            fetched = self.copies.fetch((cell.number, version), allocate)
            if fetched is not None:
                self.enter(fetched)

    def arrive(self, value: Value) -> None:
        """Wait for a value that is on its way, and hand its memory to the program's storage."""
        cell, version = value
        storage = self.copies.arrive((cell.number, version))
        if storage is not None:
            self._hand_over(value, storage)

    def gather(self, places: Mapping[Cell, int]) -> None:
        """Let these cells be on the host, as a plan begins with them there, each in the area from its place on.

        What is elsewhere on the host, or at another place of the area, is moved; what is on the device is copied. A
        cell whose address is known stays there, too.
        """
        here = {cell: self._area.place(at, cell.nbytes) for cell, at in places.items() if self._sent.has((cell, 0))}
        found = {cell: self._sent.take(cell) for cell in here}
        moved = [cell for cell in here if found[cell] != here[cell]]
        if moved and self.kind == "cuda":
            torch.cuda.synchronize()
        for cell in moved:
            if found[cell].storage is here[cell].storage:  # what is copied first may lie where it is now
                found[cell], now = _new(cell.nbytes), found[cell]
                _copy(now.tensor(), found[cell].tensor())
        for cell in moved:
            _copy(found.pop(cell).tensor(), here[cell].tensor())
        for cell, place in here.items():
            self.copies.found((cell.number, cell.version), place.at, place.nbytes)
        for cell, at in places.items():
            if not cell.gone:
                self.offload((cell, cell.version), at)
                self.leave((cell, cell.version))

    def keep(self, cells: Iterable[Cell]) -> None:
        """Leave on the host, for the next step, what is only there."""
        for cell in cells:
            place = self.copies.place((cell.number, cell.version))
            if place is not None:
                self._sent.add(cell, place)

    def end(self, *, goes_on: bool) -> None:
        """The step is over. goes_on: the next begins at once, so that what was sent may stay on the host."""
        if not goes_on:
            self._sent.clear()
        self.copies.end()
        if self.streams is not None:
            self.streams.end()

    def _hand_over(self, value: Value, storage: torch.UntypedStorage) -> None:
        if self.streams is not None:
            self.streams.after_again(())
        self.ledger.ours(storage)
        self.assign(value, storage)

    def _streams_seen(self) -> Iterable[torch.cuda.Stream]:
        return self.streams.seen if self.streams is not None else ()


def clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """As storage.clone(), which `unseen` watches."""
    copied = torch.UntypedStorage(storage.nbytes(), device=storage.device)  # type: ignore[no-untyped-call]
    super(torch.UntypedStorage, copied).copy_(storage)
    return copied


def _new(nbytes: int) -> HostBytes:
    """Ordinary memory of the host."""
    return HostBytes(torch.UntypedStorage(nbytes), 0, nbytes)  # type: ignore[no-untyped-call]


def _copy(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy all bytes between device and host, on the current stream, and wait."""
    with DisableTorchDispatch():
        to.copy_(source)
