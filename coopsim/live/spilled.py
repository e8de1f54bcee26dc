"""Values of a step without a plan that have gone to the host, because memory ran short.

A value is a version of a storage's bytes. It goes once all streams of the device have done their work, and copies are
waited for in both directions, so that no stream has to wait for another.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

import torch

from coopsim.live import refused
from coopsim.live.copies import Allocate, bytes_of, host_memory
from coopsim.live.operands import on_device
from coopsim.live.residency import Residency
from coopsim.live.tracked import TrackedStorage, TrackedStorages, Value
from coopsim.record.observe import roles
from coopsim.record.observe.torch_private import DisableTorchDispatch


class Spilled:
    """What was used longest ago goes first; small storages go last, as each copy takes its time.

    small: bytes below which a storage is small. most_bytes: on the host at a time; None: no limit.
    """

    def __init__(
        self, residency: Residency, storages: TrackedStorages, small: float, most_bytes: int | None = None
    ) -> None:
        self._residency, self._storages, self._small, self.most_bytes = residency, storages, small, most_bytes
        self._copies: dict[Value, torch.UntypedStorage] = {}  # no tensors, which would be taken for the program's
        self._ours: set[Value] = set()  # of these, what only we held
        self._looked = False
        self._buckets: set[int] = set()  # of DistributedDataParallel, by address of PyTorch's storage
        self._reduced: list[torch.Tensor] = []  # its parameters

    def keep(self, buckets: Iterable[torch.Tensor], parameters: Iterable[torch.Tensor]) -> None:
        """Send neither these buckets nor the gradients of these parameters until the step is over."""
        self._buckets.update(bucket.untyped_storage()._cdata for bucket in buckets)
        self._reduced += parameters

    @property
    def values(self) -> list[Value]:
        """What is on the host, but for what the program has freed."""
        for value in [one for one in self._copies if one[0].ref() is None and one not in self._ours]:
            del self._copies[value]
        return list(self._copies)

    @property
    def nbytes(self) -> int:
        """The bytes of these values."""
        return sum(tracked.nbytes for tracked, _ in self.values)

    def has(self, value: Value) -> bool:
        """Whether a value is on the host."""
        return value in self._copies

    def send(self, nbytes: int, protected: Collection[TrackedStorage]) -> int:
        """Send values until so many bytes are free, none of storages in `protected`; return the bytes that went."""
        freed = 0
        for value in self.candidates(protected):
            if freed >= nbytes or not (sent := self.sent(value)):
                break
            freed += sent
        return freed

    def is_full(self, protected: Collection[TrackedStorage]) -> bool:
        """Whether a value may go, and would, if the host could hold more."""
        return self.most_bytes is not None and next(self.candidates(protected), None) is not None

    def sent(self, value: Value) -> int:
        """Send a value that is on the device. Its bytes, or 0 if the host may hold no more."""
        nbytes, storage = value[0].nbytes, self._residency.memory_of(value)
        if storage is None or (self.most_bytes is not None and self.nbytes + nbytes > self.most_bytes):
            return 0
        copied = host_memory(nbytes)
        if copied is None:
            self.most_bytes = self.nbytes
            return 0
        self._residency.ledger.of_storage(storage)  # while it has an address: it may be met for the first time later
        if self._residency.streams is not None:
            self._residency.streams.finish()
        with DisableTorchDispatch():
            bytes_of(copied).copy_(bytes_of(storage))
        self._copies[value] = copied
        if value[1] in value[0].held:
            self._ours.add(value)
        self._residency.evict(value)
        self._residency.spills += 1
        self._residency.spilled_bytes += nbytes
        return nbytes

    def fetch(self, value: Value, allocate: Allocate) -> None:
        """Copy a value back, to memory that `allocate` gives."""
        storage = allocate(value[0].nbytes)
        with DisableTorchDispatch():
            bytes_of(storage).copy_(bytes_of(self._copies[value]))
        self._residency.arrived(value, storage)
        self.drop(value)

    def lay_out(self, free: Callable[[], object], allocate: Allocate) -> None:
        """Lay out anew, one after the other, all that may go and has room on the host, in memory that `allocate` gives.

        What steps without a plan have made and fetched lies where there was room, and holes between are lost to a plan.
        free: gives back what nobody uses, while all is on the host.
        """
        there = [value for _, value in sorted(self.by_address(()).items())]
        for value in there:
            self.sent(value)
        free()
        for value in there:
            if self.has(value):
                self.fetch(value, allocate)

    def by_address(self, protected: Collection[TrackedStorage]) -> dict[int, Value]:
        """The candidates, by the address of their memory."""
        memory = ((self._residency.memory_of(value), value) for value in self.candidates(protected))
        return {super(torch.UntypedStorage, one).data_ptr(): value for one, value in memory if one is not None}

    def drop(self, value: Value) -> None:
        """Let a copy go that nothing needs; does nothing if there is none."""
        self._copies.pop(value, None)
        self._ours.discard(value)

    def forget_older(self) -> None:
        """Let the copies of values go that the program's storages do not have any more, as nothing is run again."""
        for tracked, version in list(self._copies):
            if tracked.ref() is None or tracked.version != version:
                del self._copies[tracked, version]
        self._ours.clear()

    def candidates(self, protected: Collection[TrackedStorage]) -> Iterator[Value]:
        """The values that may go, none of storages in `protected`, in the order in which they should."""
        if not self._looked:
            self._looked = True
            found = roles.Objects.now()
            if found.graphs:
                refused.graphs()
            for tensor in found.tensors:  # what no op of the step has used yet goes first
                if self._storages.gpu in (None, tensor.device):
                    self._storages.of_tensor(tensor)
        gradients = on_device(self._residency.device_type, (one.grad for one in self._reduced))
        stay = {gradient.untyped_storage()._cdata for gradient in gradients} | self._buckets
        there = [one for one in self._storages.there() if one not in protected and (one.held or not one.evicted)]
        for tracked in sorted(there, key=lambda one: (one.nbytes < self._small, one.touched)):
            if tracked.key not in stay and not self._residency.must_stay(tracked):
                yield from ((tracked, version) for version in list(tracked.held))
                if not tracked.evicted and tracked.version not in tracked.held and tracked.ref() is not None:
                    yield tracked, tracked.version

    def end(self) -> None:
        """Let all copies go, as the step is over."""
        for kept in (self._copies, self._ours, self._buckets, self._reduced):
            kept.clear()
