"""Which storages are alive: an exact account of when each appears and when its last reference goes.

A finalizer hangs on the Python object of a tensor's storage. PyTorch keeps that one object per storage for as long as
the storage lives, also while only C++ holds it, so the finalizer fires when the bytes are given back.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch

from coopsim.types import Role


@dataclass(eq=False)
class Storage:
    """One storage: its place in the order of appearance, its bytes, and what it is to the step."""

    serial: int
    nbytes: int
    address: int
    role: Role | None = None
    alive: bool = True
    resized: bool = False  #: its StorageImpl held another number of bytes before
    pending: bool = False  #: nothing has been written to it yet: the op that does creates it
    node: int | None = None  #: the autograd node that made it, if one did
    maker: tuple[str, str] | None = None  #: the op that made it, and the op's module, where that is watched
    kind: str | None = None  #: what it is of to a rank (script/kinds.py), where that is watched


@dataclass(eq=False)
class _Slot:
    """What a StorageImpl holds now. It changes when the StorageImpl is resized."""

    holds: Storage | None = None
    used: bool = False


class Ledger:
    """All storages of the device. `on_free` is called, on whichever thread frees, when one goes.

    Storages without bytes are left out until they get some. NativeLedger is the same without objects of Python's.
    """

    def __init__(self) -> None:
        self.on_free: Callable[[Storage], None] = lambda _: None
        self.live_bytes = 0
        self.peak_bytes = 0
        self.most_bytes = self.newest_at_most = 0  #: the most after an op, and the newest storage that there was then
        self._past: list[Storage] = []  # gone since, of those that were there
        self._slots: dict[int, _Slot] = {}  # by address of the StorageImpl, which is used again as soon as it is free
        self._count = 0

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """The storage of a tensor, entered at first sight; None if it has no bytes.

        One that was resized since it was last seen is freed, and another takes its place.
        """
        return self.of_storage(tensor.untyped_storage())

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """The same of PyTorch's storage."""
        key, nbytes = untyped._cdata, untyped.nbytes()
        slot = self._slots.get(key)
        if slot is None:
            if not nbytes:
                return None
            slot = self._slots[key] = _Slot()
            weakref.finalize(untyped, self._gone, key, slot).atexit = False
        if slot.holds is None or slot.holds.nbytes != nbytes:
            resized = slot.used
            self._release(slot)
            slot.holds = self._enter(nbytes, untyped.data_ptr(), resized=resized) if nbytes else None
            slot.used = True
        return slot.holds

    def held(self, key: int) -> Storage | None:
        """What the storage of PyTorch's with this `_cdata` holds; None if it is not known, or has no bytes."""
        slot = self._slots.get(key)
        return slot.holds if slot is not None else None

    def knows(self, key: int) -> bool:
        """Has a storage of PyTorch's with this `_cdata` been seen that is still there?"""
        return key in self._slots

    def released(self, storage: Storage) -> None:
        """Called when one has gone, after its bytes were taken off; for ledgers that count otherwise."""

    @property
    def newest(self) -> int:
        """The serial of the storage that appeared last."""
        return self._count

    def alive(self) -> list[Storage]:
        """What is alive now, in order of appearance."""
        held = (slot.holds for slot in list(self._slots.values()))
        return sorted((s for s in held if s is not None), key=lambda s: s.serial)

    def catch_up(self) -> None:
        """All that has gone is known at once."""

    def look_at_peak(self) -> None:
        """An op has run."""
        if self.live_bytes > self.most_bytes:
            self.most_bytes, self.newest_at_most = self.live_bytes, self.newest
            self._past.clear()

    def set_known(self, tensor: torch.Tensor, *, known: bool) -> None:
        """Are the values of a tensor's storage known? Whoever sees every op need not be told."""

    def at_most(self) -> list[Storage]:
        """What was alive when bytes were at their most after an op."""
        return [s for s in (*self.alive(), *self._past) if s.serial <= self.newest_at_most]

    def _enter(self, nbytes: int, address: int, *, resized: bool) -> Storage:
        self._count += 1
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return Storage(self._count, nbytes, address, resized=resized)

    def _gone(self, key: int, slot: _Slot) -> None:
        if self._slots.get(key) is slot:
            del self._slots[key]
        self._release(slot)

    def _release(self, slot: _Slot) -> None:
        storage, slot.holds = slot.holds, None
        if storage is not None:
            storage.alive = False
            self.live_bytes -= storage.nbytes
            self.on_free(storage)
            if storage.serial <= self.newest_at_most:
                self._past.append(storage)
            self.released(storage)
