"""Notes which values of a recorded step nobody was seen to write, so that no op that is run again would make them.

Extensions fill what they allocate by kernels of their own, and a program may write to any address that it knows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from coopsim.record.observe.recording import Op, Recording
from coopsim.record.observe.storages import Storage

_EMPTY, _ZEROS = ("aten.empty", "aten.new_empty"), ("aten.zeros", "aten.new_zeros")
#: In-place ops that read nothing of what they change.
_OVERWRITES = {
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
    *("log_normal_", "cauchy_"),
}


class Writers:
    """Notes, while a step is recorded, what is written past the dispatcher."""

    def __init__(self) -> None:
        self._made: dict[int, Storage] = {}  # in the step, by address of PyTorch's storage
        self._zeros: set[int] = set()  # of these, not used yet
        self._written: set[Storage] = set()

    def located(self, storage: torch.UntypedStorage) -> None:
        """Note that the program knows a storage's address, and may write to it."""
        if storage._cdata in self._made:
            self._written.add(self._made[storage._cdata])

    def used(self, tensors: Iterable[torch.Tensor], is_zero: Callable[[torch.Tensor], bool]) -> None:
        """Look whether what was made as zeros still is when an op uses it first. is_zero: whether a storage is."""
        for tensor in tensors if self._zeros else ():
            storage = tensor.untyped_storage()
            if storage._cdata in self._zeros:
                self._zeros.discard(storage._cdata)
                if not is_zero(tensor):
                    self.located(storage)

    def made(self, name: str, results: Iterable[tuple[torch.Tensor, Storage | None]]) -> None:
        """Note what an op of this name has made."""
        made = {tensor.untyped_storage()._cdata: storage for tensor, storage in results if storage is not None}
        self._made |= made
        self._zeros -= made.keys()  # gone without use, and their addresses are others' now
        if name.startswith(_ZEROS):
            self._zeros |= made.keys()

    def mark(self, recording: Recording) -> None:
        """Let no plan run an op again whose results were written past the dispatcher.

        A trace has a way to say so: that an op is a collective, if of one rank.
        """
        blank: dict[Storage, Op] = {}  # made by an op that writes nothing, and not used yet
        for op in recording.events:
            if not isinstance(op, Op):
                continue
            for storage in (*op.reads, *op.mutates):
                maker = blank.pop(storage, None)
                if maker is not None and not (storage in op.mutates and _overwrites(op.name)):
                    maker.peers = max(maker.peers, 1)
            if op.name.startswith(_EMPTY):
                blank.update(dict.fromkeys(op.creates, op))
            if not self._written.isdisjoint(op.creates):
                op.peers = max(op.peers, 1)


def is_blank(func: Any) -> bool:
    """Whether what an op makes has nothing in it that the op has written."""
    return str(func).startswith(_EMPTY)


def _overwrites(name: str) -> bool:
    """Whether an op that changes a tensor reads nothing of it. Ops that are not PyTorch's say what they write."""
    namespace, base, overload = (*name.split("."), "", "")[:3]
    return namespace != "aten" or base in _OVERWRITES or "out" in overload
