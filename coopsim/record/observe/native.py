"""The ledger of storages that the library keeps (interpose/ledger.h), as Python reads it.

A Python object of a storage would be a reference to it, because of which autograd would not accumulate gradients in
place. So storages have none, and `catch_up` polls the library for those that have been freed.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.record.observe.interpose.library import Entry, Library, load
from coopsim.record.observe.storages import Segments, Storage
from coopsim.record.observe.storages import address as address_of

_AT_ONCE = 4096
_TOUCHED = 4  #: a bit of Entry.known (ledger.h)
_NAME = 512


class NativeLedger:
    """All storages of the device, with the interface of `Ledger` (storages.py), kept by the C++ library."""

    def __init__(self, library: Library) -> None:
        self._on_free: Callable[[Storage], None] = lambda _: None
        self._library: Any = library
        self._account = library.account().contents
        self._entry = Entry()
        self._serials = (ctypes.c_int64 * _AT_ONCE)()
        self._known: dict[int, Storage] = {}
        self._past: dict[int, Storage] = {}  # freed, but alive at the maximum after an op
        self._newest_at_most = self._allocations_before = 0
        self._ops: dict[int, str] = {}
        self.modules: list[str] = []  #: names of modules, by number

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """Return the storage of a tensor, entering it at first sight; None if it has no bytes."""
        serial = self._library.of(tensor._cdata, self._entry)
        return self._storage(self._entry) if serial else None

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """Return the Storage of an UntypedStorage, as `of` does for a tensor's."""
        return self._storage(self._entry) if self._library.of_storage(untyped._cdata, self._entry) else None

    @property
    def newest(self) -> int:
        """The serial (Storage.serial: its number in order of appearance) of the latest storage; 0 before the first."""
        return int(self._account.newest)

    @property
    def live_bytes(self) -> int:
        """Bytes of all storages that are alive."""
        return int(self._account.live)

    @property
    def peak_bytes(self) -> int:
        """The maximum of `live_bytes` since this was set."""
        return int(self._account.peak)

    @peak_bytes.setter
    def peak_bytes(self, nbytes: int) -> None:
        self._account.peak = nbytes

    @property
    def newest_at_most(self) -> int:
        """The newest serial at the moment when live bytes, as sampled after each op, had their maximum."""
        return int(self._account.newest_at_most)

    def alive(self) -> list[Storage]:
        """Return the storages that are alive now, in order of appearance."""
        return list(self._all(self._library.alive))

    def at_most(self) -> list[Storage]:
        """Return the storages that were alive when live bytes, as sampled after each op, had their maximum."""
        return list(self._all(self._library.at_most))

    def set_known(self, tensor: torch.Tensor, *, known: bool) -> None:
        """Set whether something is known of a tensor's values on a real card (observe/known.py, observe/shares.py).

        Ops on a storage with known values are watched by Python, which may compute their results, too.
        """
        self._library.values(tensor._cdata, known)

    def recording_starts(self, _segments: Segments | None, on_free: Callable[[Storage], None]) -> None:
        """Note that a recording starts; the peak is of it alone.

        Until it ends, `catch_up` calls `on_free` for each storage that was handed to Python before, in the order of
        their ends.
        """
        self._on_free, self.peak_bytes = on_free, self.live_bytes
        self._allocations_before = self._account.allocations

    def recording_ends(self) -> None:
        """Note that the recording has ended."""
        self._on_free = lambda _: None

    def is_younger(self, storage: Storage, _segments: Callable[[], Segments | None]) -> bool:
        """Return whether the storage's memory was allocated since the last recording started, and that is known."""
        return storage.allocated > self._allocations_before

    def note_touched(self, *, on: bool) -> None:
        """Start, anew, or stop to note which storages ops read or write."""
        self._library.note_touched(on)

    def untouched(self) -> list[Storage] | None:
        """Return the storages that are alive and that no op has read or written since `note_touched(on=True)`."""
        return [self._storage(entry) for entry in self._entries(self._library.alive) if not entry.known & _TOUCHED]

    def look_at_peak(self) -> None:
        """Update the maximum of live bytes; the library does so itself after each op."""
        self._library.look_at_peak()

    def catch_up(self) -> None:
        """Poll the library for storages freed since the last call, and tell the recording of each that Python knows."""
        if self._newest_at_most != self._account.newest_at_most:
            self._newest_at_most = self._account.newest_at_most
            self._past.clear()
        while n := self._library.gone(self._serials, _AT_ONCE):
            for serial in self._serials[:n]:
                storage = self._known.pop(serial, None)
                if storage is None:
                    continue
                storage.alive = False
                if storage.serial <= self._newest_at_most:
                    self._past[storage.serial] = storage
                self._on_free(storage)

    def _all(self, ask: Callable[[Any, int], int]) -> Iterator[Storage]:
        return map(self._storage, self._entries(ask))

    def _entries(self, ask: Callable[[Any, int], int]) -> Iterator[Entry]:
        self.catch_up()
        room = ask(None, 0)
        entries = (Entry * room)()
        for i in range(min(ask(entries, room), room)):
            yield entries[i]

    def _storage(self, entry: Any) -> Storage:
        serial = entry.serial
        found = self._known.get(serial) or self._past.get(serial)
        if found is None:
            found = Storage(serial, entry.nbytes, entry.address, resized=bool(entry.resized), allocated=entry.allocated)
            self._known[serial] = found
        if found.maker is None and entry.op >= 0:
            found.maker = self.op(entry.op), self.module(entry.module)
        return found

    def op(self, number: int) -> str:
        """Return the name of an op, by the library's number, as str() of the op in Python: "aten.add.Tensor"."""
        if number not in self._ops:
            text = ctypes.create_string_buffer(_NAME)
            self._library.name(number, text, _NAME)
            self._ops[number] = text.value.decode()
        return self._ops[number]

    def module(self, number: int) -> str:
        """Return the name of a module, by its index in `modules`; "" for number -1, no module."""
        return self.modules[number] if number >= 0 else ""

    def running(self) -> tuple[str, str]:
        """Return the names of the op that began last and of its module; "" and "" before the first op."""
        module = ctypes.c_int64()
        op = self._library.running(module)
        return (self.op(op), self.module(module.value)) if op >= 0 else ("", "")


class NativeModules:
    """Tells the library which module is running, as where.py follows it.

    `names`: the list to which names of modules are added; a module's number is its index there.
    """

    def __init__(self, library: Any, names: list[str]) -> None:
        self._library, self._names = library, names
        self._number = {"": -1}

    def enter(self, name: str, sequence: int) -> None:
        """Set the module of this thread, "" for none.

        `sequence` is the sequence number of the next autograd node, or -1 on a thread whose numbers are not followed.
        """
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self._names)
            self._names.append(name)
        self._library.module(number, sequence)

    def forget(self) -> None:
        """Forget which modules made which autograd nodes; to be called when the graph is gone."""
        self._library.forget_modules()

    def backward_done(self, *, reset: bool = False) -> bool:
        """Return whether an op has run in a backward pass since the last call with `reset=True`."""
        return bool(self._library.backward_done(reset))


_current: list[NativeLedger] = []


def ledger() -> NativeLedger:
    """Return this process's ledger: a new, empty one, unless a recorder is active, which goes on using the old one.

    The caller makes sure that the library can be loaded (interpose.library.load).
    """
    library: Any = load()
    assert library is not None
    if library.forget() or not _current:
        _current[:] = [NativeLedger(library)]
    return _current[0]


_nbytes = ctypes.c_int64()


def memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address and the bytes of a tensor's storage, without making a Python object of the storage.

    The address is 0 if the storage has no memory.
    """
    library: Any = load()
    if library is None:
        untyped = tensor.untyped_storage()
        return address_of(untyped), untyped.nbytes()
    address = library.storage(tensor._cdata, _nbytes)
    return address, int(_nbytes.value)
