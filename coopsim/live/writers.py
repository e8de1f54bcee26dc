"""Notes which values of a recorded step nobody was seen to write, so that no op that is run again would make them.

Extensions fill what they allocate by kernels of their own, a program may write to any address that it knows, and ops
on other threads go past the mode that sees them here.
"""

import math
import weakref
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from coopsim.base.types import Role
from coopsim.live.tracked import reference
from coopsim.record.observe import effects
from coopsim.record.observe.recording import Op, Recording
from coopsim.record.observe.storages import Storage

_ZEROS = ("aten.zeros", "aten.new_zeros")
#: In-place ops that read nothing of what they change.
_OVERWRITES = {
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
    *("log_normal_", "cauchy_"),
}


#: What a program changes by ops alone, as far as is known: to look at it at each use would take too long.
_UNSUSPECTED = (Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE)


@dataclass(slots=True)
class _Use:
    """What was found of a storage at its latest use.

    contents: None if nobody looked. latest: of its tensors, while that lives. version: how often ops have changed it in
    place; -1: not known.
    """

    alive: Callable[[], torch.UntypedStorage | None]
    contents: tuple[int, ...] | None = None
    latest: Callable[[], torch.Tensor | None] = lambda: None
    version: int = -1


class Writers:
    """Notes, while a step is recorded, what is written past the dispatcher.

    Contents are compared, from use to use and at the step's end, of storages whose addresses the program has asked for,
    and of those that were there when the step began; zeros are looked at when they are used first. Of all, the versions
    are compared that PyTorch counts, which are those of ops on any thread. Single numbers on the host that ops read are
    compared at the step's end. contents: gives those of a storage, as some sums.
    """

    def __init__(self, contents: Callable[[torch.UntypedStorage], tuple[int, ...]]) -> None:
        self._contents = contents
        # By address of PyTorch's storage: those made in the step, those of zeros, and all that were used.
        self._made: dict[int, Storage] = {}
        self._zeros: set[int] = set()
        self._uses: dict[int, _Use] = {}
        self._elsewhere: list[tuple[Op, torch.Tensor, Any]] = []  # numbers on the host, and what they were
        self._others: set[int] = set()  # of these, what was something else before the present op
        self._written: set[Storage] = set()  # which the op that made them does not make
        self._changed: dict[Storage, float] = {}  # before which op, by its number

    def located(self, storage: torch.UntypedStorage) -> None:
        """Note that the program knows a storage's address, and may write to it."""
        if storage._cdata in self._made:
            self._written.add(self._made[storage._cdata])
        self._use(storage).contents = self._contents(storage)

    def used(self, tensors: Iterable[torch.Tensor]) -> None:
        """Look at the storages of tensors that an op is about to use."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key, use = storage._cdata, self._use(storage)
            if -1 < use.version < _version(tensor):
                self._others.add(key)
            if key in self._zeros:
                self._zeros.discard(key)
                if any(self._contents(storage)):
                    self.located(storage)
            if use.contents is not None and self._contents(storage) != use.contents:
                self._others.add(key)

    def ran(
        self, number: int, used: Iterable[tuple[torch.UntypedStorage, Storage | None]], changed: Container[Storage]
    ) -> None:
        """Note that the op of this number has used storages, and has changed some of them."""
        for storage, entry in used:
            key, use = storage._cdata, self._use(storage)
            known = use.contents is not None
            made = self._made.get(key) is entry  # else that one is gone, and this has its address
            if entry is not None and key in self._others:
                self._changed[entry] = number
                self._written.update([entry] if made else [])
            if entry is None or (not known and (made or entry.role in _UNSUSPECTED)):
                continue
            if key in self._others or not known or entry in changed:
                use.contents = self._contents(storage)
        self._others.clear()

    def left(self, tensors: Iterable[tuple[torch.Tensor, Storage | None]], changed: Container[Storage]) -> None:
        """Note the versions of an op's tensors, as it leaves them. changed: what it mutates, which counts later."""
        for tensor, entry in tensors:
            use = self._use(tensor.untyped_storage())
            use.latest = weakref.ref(tensor)
            use.version = max(_version(tensor) + (entry in changed), use.version)  # `tensor.data` has one of its own

    def made(self, name: str, results: Iterable[tuple[torch.UntypedStorage, Storage | None]]) -> None:
        """Note what is new of what an op of this name has made."""
        made = {storage._cdata: entry for storage, entry in results if entry is not None}
        self._made |= made
        self._zeros -= made.keys()  # those that had these addresses are gone
        if name.startswith(_ZEROS):
            self._zeros |= made.keys()

    def read_elsewhere(self, op: Op, tensors: Iterable[torch.Tensor]) -> None:
        """Note which tensors an op has read that are not on the device.

        Single numbers are compared. Others may be buffers that are filled anew at any time, so the op is not run again.
        """
        for one in tensors:
            if one.numel() == 1 and one.device.type == "cpu":
                self._elsewhere.append((op, one, one.item()))
            else:
                never_again(op)

    def end(self, entry: Callable[[int], Storage | None]) -> None:
        """Look at what is left, as the step is over. entry: of a storage at an address."""
        for use in self._uses.values():
            storage, tensor = use.alive(), use.latest()
            if storage is None:
                continue
            changed = use.contents is not None and self._contents(storage) != use.contents
            changed |= tensor is not None and _version(tensor) > use.version
            if changed and (found := entry(storage._cdata)) is not None:
                self._changed[found] = math.inf
        for op, number, was in self._elsewhere:
            if number.item() != was:
                never_again(op)

    def _use(self, storage: torch.UntypedStorage) -> _Use:
        """What was found of a storage; it is new if it was not used yet, or if another had its address."""
        use = self._uses.get(storage._cdata)
        if use is None or use.alive() is not storage:
            use = self._uses[storage._cdata] = _Use(reference(storage))
        return use

    def mark(self, recording: Recording) -> None:
        """Let no plan run an op again whose results, or operands, were written past the dispatcher after it had run."""
        blank: dict[Storage, Op] = {}  # made by an op that writes nothing, and not used yet
        for op in recording.events:
            if not isinstance(op, Op):
                continue
            for storage in (*op.reads, *op.mutates):
                maker = blank.pop(storage, None)
                if maker is not None and not (storage in op.mutates and _overwrites(op.name)):
                    never_again(maker)
            if op.name.startswith(effects.BLANK):
                blank.update(dict.fromkeys(op.creates, op))
            changed = any(op.number < self._changed.get(storage, -1) for storage in (*op.reads, *op.mutates))
            if changed or not self._written.isdisjoint(op.creates):
                never_again(op)


def _version(tensor: torch.Tensor) -> int:
    """How often ops have changed a tensor, or what it is a view of, in place; 0 where PyTorch does not count that."""
    return 0 if tensor.is_inference() else tensor._version


def never_again(op: Op) -> None:
    """Let no plan run an op again. A trace has a way to say so: that it is a collective, if of one rank."""
    op.peers = max(op.peers, 1)


def _overwrites(name: str) -> bool:
    """Whether an op that changes a tensor reads nothing of it. Ops that are not PyTorch's say what they write."""
    namespace, base, overload = (*name.split("."), "", "")[:3]
    return namespace != "aten" or base in _OVERWRITES or "out" in overload
