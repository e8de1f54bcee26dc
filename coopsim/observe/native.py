"""The account of storages that the library keeps (interpose/ledger.h), as Python asks it.

No object of Python's hangs on a storage: it would be a reference, for whose sake autograd would not add up gradients in
place. Of what Python has seen, it hears at `catch_up` what has gone.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.observe.interpose.library import Entry, Library, load
from coopsim.observe.storages import Storage

_AT_ONCE = 4096
_NAME = 512


class NativeLedger:
    """All storages of the device, as `Ledger`. `on_free` is called in `catch_up`, in the order in which they went."""

    def __init__(self, library: Library) -> None:
        self.on_free: Callable[[Storage], None] = lambda _: None
        self._library: Any = library
        self._account = library.account().contents
        self._entry = Entry()
        self._serials = (ctypes.c_int64 * _AT_ONCE)()
        self._known: dict[int, Storage] = {}
        self._past: dict[int, Storage] = {}  # gone, but there at the peak
        self._newest_at_most = 0
        self._ops: dict[int, str] = {}
        self.modules: list[str] = []  #: names of modules, by number

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """The storage of a tensor, entered at first sight; None if it has no bytes."""
        serial = self._library.of(tensor._cdata, self._entry)
        return self._storage(self._entry) if serial else None

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """The same of PyTorch's storage."""
        return self._storage(self._entry) if self._library.of_storage(untyped._cdata, self._entry) else None

    @property
    def newest(self) -> int:
        """The serial of the storage that appeared last."""
        return int(self._account.newest)

    @property
    def live_bytes(self) -> int:
        """Bytes of all that is alive."""
        return int(self._account.live)

    @property
    def peak_bytes(self) -> int:
        """The most that there was since it was set."""
        return int(self._account.peak)

    @peak_bytes.setter
    def peak_bytes(self, nbytes: int) -> None:
        self._account.peak = nbytes

    @property
    def newest_at_most(self) -> int:
        """Of the moment at which the most bytes were alive, after an op: the serial of the newest storage."""
        return int(self._account.newest_at_most)

    def alive(self) -> list[Storage]:
        """What is alive now, in order of appearance."""
        return list(self._all(self._library.alive))

    def at_most(self) -> list[Storage]:
        """What was alive when bytes were at their most after an op."""
        return list(self._all(self._library.at_most))

    def set_known(self, tensor: torch.Tensor, *, known: bool) -> None:
        """Are the values of a tensor's storage known? Then ops on it go by way of Python."""
        self._library.values(tensor._cdata, known)

    def look_at_peak(self) -> None:
        """An op has run: the library has looked."""

    def catch_up(self) -> None:
        """Hear what has gone."""
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
                self.on_free(storage)

    def _all(self, ask: Callable[[Any, int], int]) -> Iterator[Storage]:
        self.catch_up()
        room = ask(None, 0)
        entries = (Entry * room)()
        for i in range(min(ask(entries, room), room)):
            yield self._storage(entries[i])

    def _storage(self, entry: Any) -> Storage:
        serial = entry.serial
        found = self._known.get(serial) or self._past.get(serial)
        if found is None:
            found = Storage(serial, entry.nbytes, entry.address, resized=bool(entry.resized))
            self._known[serial] = found
        if found.maker is None and entry.op >= 0:
            found.maker = self.op(entry.op), self.module(entry.module)
        return found

    def op(self, number: int) -> str:
        """The name of an op."""
        if number not in self._ops:
            text = ctypes.create_string_buffer(_NAME)
            self._library.name(number, text, _NAME)
            self._ops[number] = text.value.decode()
        return self._ops[number]

    def module(self, number: int) -> str:
        """The name of a module; "" for none."""
        return self.modules[number] if number >= 0 else ""

    def running(self) -> tuple[str, str]:
        """The op that began last, and its module."""
        module = ctypes.c_int64()
        op = self._library.running(module)
        return (self.op(op), self.module(module.value)) if op >= 0 else ("", "")


class NativeModules:
    """Tells the library in which module the program is (where.py)."""

    def __init__(self, library: Any, names: list[str]) -> None:
        self._library, self._names = library, names
        self._number = {"": -1}

    def enter(self, name: str, sequence: int) -> None:
        """This thread is in a module from here on, "" for none. sequence: of the next node; -1: another thread's."""
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self._names)
            self._names.append(name)
        self._library.module(number, sequence)

    def forget(self) -> None:
        """The autograd graph is gone."""
        self._library.forget_modules()

    def backward_done(self, *, reset: bool = False) -> bool:
        """Has an op run in a backward pass since the last reset?"""
        return bool(self._library.backward_done(reset))


_current: list[NativeLedger] = []


def ledger() -> NativeLedger:
    """The one of this process, where the library can be had: a new one, unless somebody watches already."""
    library: Any = load()
    assert library is not None
    if library.forget() or not _current:
        _current[:] = [NativeLedger(library)]
    return _current[0]


_nbytes = ctypes.c_int64()


def memory(tensor: torch.Tensor) -> tuple[int, int]:
    """The address and the bytes of a tensor's storage, asked without an object of Python's for the storage."""
    library: Any = load()
    if library is None:
        untyped = tensor.untyped_storage()
        return untyped.data_ptr(), untyped.nbytes()
    address = library.storage(tensor._cdata, _nbytes)
    return address, int(_nbytes.value)
