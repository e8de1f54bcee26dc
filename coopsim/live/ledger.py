"""Counts the bytes that are alive on the device. Storages that were evicted (emptied) count nothing."""

from typing import Any

import torch

from coopsim.base.types import Role
from coopsim.live.observer import Observer
from coopsim.record.observe.storages import Ledger, Storage


class LiveLedger(Ledger):
    """The recorder's ledger, kept from step to step and aware of evicted storages.

    On the CPU an observer counts the storages that it made itself, in an account that both share.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer
        self._account: Any = observer.account if observer is not None else [0, 0, 0]
        super().__init__()
        self._empty: set[Storage] = set()

    def join(self, observer: Observer) -> None:
        """Share the account with an observer, which has counted nothing so far."""
        observer.account[0], observer.account[1] = self._account[0], self._account[1]
        self._observer, self._account = observer, observer.account

    @property
    def live_bytes(self) -> int:
        """Bytes of all storages that have memory now."""
        return int(self._account[0] + self._account[2])

    @live_bytes.setter
    def live_bytes(self, nbytes: int) -> None:
        self._account[0] = nbytes - self._account[2]

    @property
    def peak_bytes(self) -> int:
        """The largest value of `live_bytes` since it was set."""
        return int(self._account[1])

    @peak_bytes.setter
    def peak_bytes(self, nbytes: int) -> None:
        self._account[1] = nbytes

    def count_peak(self) -> None:
        """Count the peak from now on."""
        self.peak_bytes = self.live_bytes

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """The ledger's entry of a storage, made at first sight; None if it has no bytes.

        From then on this ledger counts it, and the observer no longer does.
        """
        if self._observer is not None and not self.knows(untyped._cdata) and untyped.device.type == "cpu":
            self._observer.uncount(untyped)
        return super().of_storage(untyped)

    def role(self, key: int) -> Role | None:
        """The role of the storage with this `_cdata`, its address in PyTorch; None if it, or its role, is not known."""
        held = self.held(key)
        return held.role if held is not None else None

    def emptied(self, untyped: torch.UntypedStorage) -> None:
        """Subtract a storage's bytes from `live_bytes`, as the caller has freed its memory.

        Does nothing for a storage that is not entered, or was subtracted already.
        """
        held = self.held(untyped._cdata)
        if held is not None and held not in self._empty:
            self._empty.add(held)
            self.live_bytes -= held.nbytes

    def filled(self, untyped: torch.UntypedStorage) -> None:
        """Add a storage's bytes to `live_bytes` again, as the caller has given it memory; the opposite of `emptied`.

        A storage that is not known yet is entered; for one that is counted already, nothing is done.
        """
        held = self.held(untyped._cdata)
        if not self.knows(untyped._cdata):
            self.of_storage(untyped)
        elif held is not None and held in self._empty:
            self._empty.remove(held)
            self.live_bytes += held.nbytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def ours(self, untyped: torch.UntypedStorage) -> None:
        """Count a storage here from now on, whoever has counted it so far."""
        if self._observer is not None:
            self._observer.uncount(untyped)
        self.filled(untyped)

    def released(self, storage: Storage) -> None:
        """Correct the count for a storage that is evicted: if it was empty, its bytes had been taken off before."""
        if storage in self._empty:
            self._empty.remove(storage)
            self.live_bytes += storage.nbytes
