"""Sends values to the host when memory runs short in a step without a plan, where plans may offload state."""

import gc
from collections.abc import Collection, Iterator
from functools import cached_property

import torch

from coopsim.live.residency import Residency
from coopsim.live.tracked import TrackedStorage, TrackedStorages
from coopsim.live.victims import Victims
from coopsim.observe import roles


class Sender:
    """The optimizer's state goes first, which no op before the optimizer uses; then what was used longest ago.

    least_bytes: of a tracked storage that is sent. most_bytes: on the host at a time; 0: nothing is sent.
    """

    def __init__(
        self, residency: Residency, victims: Victims, storages: TrackedStorages, least_bytes: float, most_bytes: int
    ) -> None:
        self._residency, self._victims, self._storages = residency, victims, storages
        self._least, self._most = least_bytes, most_bytes

    @cached_property
    def _state(self) -> list[torch.Tensor]:
        return _largest_state()

    @cached_property
    def _unsent(self) -> Iterator[torch.Tensor]:
        return iter(self._state)

    def send(self, protected: Collection[TrackedStorage]) -> int:
        """Send one storage, none in `protected`, and return its bytes; 0 if there is none that may go.

        State that an op has used in this step, and so was fetched, goes again when there is nothing else.
        """
        if not self._most:
            return 0
        for tensor in self._unsent:
            tracked = self._storages.of_tensor(tensor)
            if (
                tracked is not None
                and tracked.nbytes >= self._least
                and tracked not in protected
                and self.sent(tracked)
            ):
                return tracked.nbytes
        tracked = self._victims.oldest(protected)
        if tracked is not None and self.sent(tracked):
            return tracked.nbytes
        again = (tracked for tracked in self._state_there(protected) if tracked.nbytes >= self._least)
        return next((tracked.nbytes for tracked in again if self.sent(tracked)), 0)

    def sizes(self, protected: Collection[TrackedStorage]) -> dict[TrackedStorage, int]:
        """Bytes of each storage that may be sent, however small, to free an address range; none in `protected`."""
        if not self._most:
            return {}
        return {
            tracked: tracked.nbytes for tracked in (*self._state_there(protected), *self._victims.movable(protected))
        }

    def _state_there(self, protected: Collection[TrackedStorage]) -> Iterator[TrackedStorage]:
        """The storages of the optimizers' state that are on the device, the largest first, but those in `protected`."""
        for tensor in self._state:
            tracked = self._storages.of_tensor(tensor)
            if tracked is not None and tracked not in protected and not tracked.evicted:
                yield tracked

    def sent(self, tracked: TrackedStorage) -> bool:
        """Send a tracked storage. False if it must stay, or the host may hold no more."""
        fits = self._residency.bytes_on_host + tracked.nbytes <= self._most
        return fits and self._residency.send(tracked)


def _largest_state() -> list[torch.Tensor]:
    """The tensors of the optimizers' state, the largest first. No address is read: some may be gone, by a plan left."""
    optimizers = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]
    found = [tensor for one in optimizers for tensor in roles.within(getattr(one, "state", {}))]
    return sorted(found, key=lambda tensor: -tensor.nbytes)
