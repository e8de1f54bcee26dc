"""The account of what is alive, in which evicted storages count nothing."""

from typing import Any

import torch

from coopsim.live.observer import Observer
from coopsim.observe.storages import Ledger, Storage
from coopsim.types import Role


class LiveLedger(Ledger):
    """As the recorder's, kept from step to step. An observer counts for itself what it has made on the CPU."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer
        self._account: Any = observer.account if observer is not None else [0, 0, 0]
        super().__init__()
        self._empty: set[Storage] = set()

    @property
    def live_bytes(self) -> int:
        """All that is alive."""
        return int(self._account[0] + self._account[2])

    @live_bytes.setter
    def live_bytes(self, nbytes: int) -> None:
        self._account[0] = nbytes - self._account[2]

    @property
    def peak_bytes(self) -> int:
        """The most that there was."""
        return int(self._account[1])

    @peak_bytes.setter
    def peak_bytes(self, nbytes: int) -> None:
        self._account[1] = nbytes

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """As the recorder's."""
        if self._observer is not None and not self.knows(untyped._cdata) and untyped.device.type == "cpu":
            self._observer.uncount(untyped)
        return super().of_storage(untyped)

    def role(self, key: int) -> Role | None:
        """What the storage with this `_cdata` is to the step, as far as that is known."""
        held = self.held(key)
        return held.role if held is not None else None

    def emptied(self, untyped: torch.UntypedStorage) -> None:
        """Its memory was given back."""
        held = self.held(untyped._cdata)
        if held is not None and held not in self._empty:
            self._empty.add(held)
            self.live_bytes -= held.nbytes

    def filled(self, untyped: torch.UntypedStorage) -> None:
        """It has memory again."""
        held = self.held(untyped._cdata)
        if not self.knows(untyped._cdata):
            self.of_storage(untyped)
        elif held is not None and held in self._empty:
            self._empty.remove(held)
            self.live_bytes += held.nbytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def released(self, storage: Storage) -> None:
        """What was empty has been taken off already."""
        if storage in self._empty:
            self._empty.remove(storage)
            self.live_bytes += storage.nbytes
