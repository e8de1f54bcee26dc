"""The account of what is alive, in which evicted storages count nothing."""

import torch

from coopsim.capture.storages import Ledger, Storage, _Slot
from coopsim.types import Role


class LiveLedger(Ledger):
    """As the recorder's, kept from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self._empty: set[Storage] = set()

    def role(self, key: int) -> Role | None:
        """What the storage with this `_cdata` is to the step, as far as that is known."""
        slot = self._slots.get(key)
        return slot.holds.role if slot is not None and slot.holds is not None else None

    def emptied(self, untyped: torch.UntypedStorage) -> None:
        """Its memory was given back."""
        slot = self._slots.get(untyped._cdata)
        if slot is not None and slot.holds is not None and slot.holds not in self._empty:
            self._empty.add(slot.holds)
            self.live_bytes -= slot.holds.nbytes

    def filled(self, untyped: torch.UntypedStorage) -> None:
        """It has memory again."""
        slot = self._slots.get(untyped._cdata)
        if slot is not None and slot.holds in self._empty:
            self._empty.remove(slot.holds)
            self.live_bytes += slot.holds.nbytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _release(self, slot: _Slot) -> None:
        storage = slot.holds
        super()._release(slot)
        if storage is not None and storage in self._empty:
            self._empty.remove(storage)
            self.live_bytes += storage.nbytes
