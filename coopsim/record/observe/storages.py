"""Ledgers track which storages are alive: exactly when each appears, and when its last reference is dropped.

Each Python object of a storage gets a finalizer. PyTorch keeps that one object per storage for as long as the storage
lives, also while only C++ holds it, so the finalizer runs when the bytes are freed.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from coopsim.base.types import Role

Segments: TypeAlias = list[dict[str, Any]]  #: of the caching allocator (layout.snapshot)


def address(untyped: torch.UntypedStorage) -> int:
    """Return the address of a storage's memory, unseen by live (unseen.py); 0 where it has none, as in a subclass."""
    try:
        return super(torch.UntypedStorage, untyped).data_ptr()
    except RuntimeError:
        return 0


@dataclass(eq=False)
class Storage:
    """One storage. `serial` is its number in order of appearance, from 1; `role` is None until it is known."""

    serial: int
    nbytes: int
    address: int
    role: Role | None = None
    alive: bool = True
    resized: bool = False  #: its StorageImpl held another number of bytes before
    allocated: int = 0  #: the number of the allocation of its memory; 0: not known
    pending: bool = False  #: nothing has been written to it yet: the first op that does counts as its creator
    node: int | None = None  #: sequence number of the autograd node that made it, if one did
    maker: tuple[str, str] | None = None  #: names of the op that made it and of its module, where watched
    kind: str | None = None  #: what a rank uses it for (run/probes/kinds.py), where that is watched


@dataclass(eq=False)
class _Slot:
    """What a StorageImpl holds now; another Storage each time that it is resized."""

    holds: Storage | None = None
    used: bool = False


class Ledger:
    """All storages of the device.

    Storages without bytes are left out until they get some. NativeLedger does the same without Python objects. A
    `_cdata`, by which some methods take a storage, is the address of PyTorch's C++ object of it.
    """

    def __init__(self) -> None:
        self._on_free: Callable[[Storage], None] = lambda _: None
        self.live_bytes = 0
        self.peak_bytes = 0
        self.most_bytes = self.newest_at_most = 0  #: the maximum of live bytes after an op, and the newest serial then
        self._blocks: set[int] | None = None  #: addresses of memory in use since the last recording started
        self._past: list[Storage] = []  # those of that moment that were freed since
        self._slots: dict[int, _Slot] = {}  # by address of the StorageImpl, which is reused as soon as it is free
        self._count = 0

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """Return the storage of a tensor, entering it at first sight; None if it has no bytes, or no memory.

        If it was resized since it was last seen, the old Storage counts as freed, and a new one is returned.
        """
        try:
            untyped = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse tensor, or one whose ops are Python's own
            return None
        return self.of_storage(untyped)

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """Return the Storage of an UntypedStorage, as `of` does for a tensor's."""
        key, nbytes = untyped._cdata, untyped.nbytes()
        slot = self._slots.get(key)
        if slot is None:
            if not nbytes or not address(untyped):  # as that of a wrapper subclass
                return None
            slot = self._slots[key] = _Slot()
            weakref.finalize(untyped, self._gone, key, slot).atexit = False
        if slot.holds is None or slot.holds.nbytes != nbytes:
            resized = slot.used
            self._release(slot)
            slot.holds = self._enter(nbytes, address(untyped), resized=resized) if nbytes else None
            slot.used = True
        return slot.holds

    def held(self, key: int) -> Storage | None:
        """Return the Storage of the UntypedStorage with this `_cdata`; None if it is not known, or has no bytes."""
        slot = self._slots.get(key)
        return slot.holds if slot is not None else None

    def knows(self, key: int) -> bool:
        """Return whether an UntypedStorage with this `_cdata` was entered and still exists, with bytes or without."""
        return key in self._slots

    def released(self, storage: Storage) -> None:
        """Do nothing; a hook for subclasses, called after a storage was freed and its bytes were subtracted."""

    @property
    def newest(self) -> int:
        """The serial of the storage that appeared last; 0 before the first."""
        return self._count

    def alive(self) -> list[Storage]:
        """Return the storages that are alive now, in order of appearance."""
        held = (slot.holds for slot in list(self._slots.values()))
        return sorted((s for s in held if s is not None), key=lambda s: s.serial)

    def catch_up(self) -> None:
        """Do nothing: finalizers report freed storages at once."""

    def recording_starts(self, segments: Segments | None, on_free: Callable[[Storage], None]) -> None:
        """Note that a recording starts, with these segments of the allocator (layout.snapshot); None: not known.

        Until it ends, `on_free` is called with each storage that is freed, on the thread that frees it; the peak is of
        it alone.
        """
        self._on_free, self.peak_bytes = on_free, self.live_bytes
        self._blocks = _used(segments) if segments is not None else None

    def recording_ends(self) -> None:
        """Note that the recording has ended."""
        self._on_free = lambda _: None

    def is_younger(self, storage: Storage, segments: Callable[[], Segments | None]) -> bool:
        """Return whether the storage's memory was allocated since the last recording started, and that is known.

        `segments` returns the allocator's segments, as they are now.
        """
        if self._blocks is None or storage.address in self._blocks:
            return False
        return storage.address in _used(segments() or [])

    def look_at_peak(self) -> None:
        """Update the maximum of live bytes; to be called after each op."""
        if self.live_bytes > self.most_bytes:
            self.most_bytes, self.newest_at_most = self.live_bytes, self.newest
            self._past.clear()

    def set_known(self, tensor: torch.Tensor, *, known: bool) -> None:
        """Do nothing: a recorder with this ledger sees every op, and need not be told whose values are known."""

    def note_touched(self, *, on: bool) -> None:
        """Do nothing: what ops read is not noted here (`untouched`)."""

    def untouched(self) -> list[Storage] | None:
        """Return None: it is not known which storages no op has read or written."""
        return None

    def at_most(self) -> list[Storage]:
        """Return the storages that were alive when live bytes, as sampled by `look_at_peak`, had their maximum."""
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
            if self._blocks is not None:
                self._blocks.discard(storage.address)
            self._on_free(storage)
            if storage.serial <= self.newest_at_most:
                self._past.append(storage)
            self.released(storage)


def _used(segments: Segments) -> set[int]:
    """Return the addresses of the blocks that are in use."""
    return {block["address"] for segment in segments for block in segment["blocks"] if block["state"] != "inactive"}
