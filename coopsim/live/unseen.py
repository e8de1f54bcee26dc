"""Watches the ways to a tensor's bytes that no dispatch mode sees, so that evicted tensors are restored first.

Which values of a recorded step nobody was seen to write is noted, too, so that no op that is run again would make them:
extensions fill what they allocate by kernels of their own, and a program may write to any address that it knows.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
import torch.utils.dlpack

from coopsim.live import refused
from coopsim.record.observe.recording import Op, Recording
from coopsim.record.observe.storages import Storage

_READS = ("numpy", "data_ptr", "__dlpack__")
_ADDRESS, _COPIES = "data_ptr", ("copy_", "_write_file")  # of storages
_SAVED = "saved_tensors"
_GRAPHS = ("capture_begin", "replay")
_PREPARED = "prepare_for_backward"  # of a reducer
_EMPTY, _ZEROS = ("aten.empty", "aten.new_empty"), ("aten.zeros", "aten.new_zeros")
#: In-place ops that read nothing of what they change.
_OVERWRITES = {
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
    *("log_normal_", "cauchy_"),
}


class Unseen:
    """Calls back, between `watch` and `forget`, before a tensor's bytes are read past the dispatcher.

    seen: called with a tensor whose address is asked for (`numpy`, `data_ptr`, `__dlpack__`, `to_dlpack`). saved:
    called with each tensor that an autograd function written in Python has saved, when its backward asks for it: its
    kernels may read anything. located: called with a storage whose address is asked for. copied: called with a storage
    that is copied or written to a file, which is done in the context that it returns. is_away: whether a storage on a
    GPU is evicted. reduced: called with a reducer of DistributedDataParallel before each of its backward passes.
    CUDA graphs are refused.
    """

    def __init__(
        self,
        seen: Callable[[torch.Tensor], None],
        saved: Callable[[torch.Tensor], None],
        located: Callable[[torch.UntypedStorage], None],
        copied: Callable[[torch.UntypedStorage], AbstractContextManager[None]],
        is_away: Callable[[torch.UntypedStorage], bool],
        reduced: Callable[[Any], None],
    ) -> None:
        self._seen, self._saved, self._located, self._copied, self._is_away = seen, saved, located, copied, is_away
        self._reduced = reduced
        self._before: list[tuple[Any, str, Any]] = []

    def watch(self) -> None:
        """Replace the methods that give access to bytes, in this process, until `forget`."""
        for name in _READS:
            self._replace(torch.Tensor, name, self._reading(getattr(torch.Tensor, name)))
        to_dlpack = self._reading(torch.utils.dlpack.to_dlpack)  # type: ignore[attr-defined]
        for module in (torch, torch.utils.dlpack):
            self._replace(module, "to_dlpack", to_dlpack)
        self._replace(torch.UntypedStorage, _ADDRESS, self._address(torch.UntypedStorage.data_ptr))
        for name in _COPIES:
            self._replace(torch.UntypedStorage, name, self._copying(getattr(torch.UntypedStorage, name)))
        self._replace(torch.autograd.function.BackwardCFunction, _SAVED, property(self._unpack))
        if torch.distributed.is_available():
            reducer = torch.distributed.Reducer  # type: ignore[attr-defined]
            self._replace(reducer, _PREPARED, self._preparing(getattr(reducer, _PREPARED)))
        for name in _GRAPHS:
            self._replace(torch.cuda.CUDAGraph, name, lambda *_, **__: refused.graphs())

    def forget(self) -> None:
        """Restore the methods that `watch` has replaced; does nothing if there are none."""
        while self._before:
            owner, name, own = self._before[-1]
            if own is not None:
                setattr(owner, name, own)
            elif name in vars(owner):
                delattr(owner, name)  # it was inherited
            self._before.pop()

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        self._before.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, by)

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self._seen(tensor)
            return original(tensor, *args, **kwargs)

        return read

    def _address(self, original: Callable[..., int]) -> Callable[..., int]:
        def read(storage: torch.UntypedStorage) -> int:
            if sys._getframe(1).f_globals.get("__name__") != "torch.serialization":
                self._located(storage)
            elif self._is_away(storage):
                return 0  # torch.save only compares it, and copies to the host later, one storage after the other
            return original(storage)

        return read

    def _copying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def copy(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as contexts:
                for storage in args:
                    if isinstance(storage, torch.UntypedStorage):
                        contexts.enter_context(self._copied(storage))
                return original(*args, **kwargs)

        return copy

    def _preparing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(reducer: Any, *args: Any) -> Any:
            out = original(reducer, *args)
            self._reduced(reducer)
            return out

        return prepare

    def _unpack(self, node: Any) -> Any:
        tensors = getattr(super(torch.autograd.function.BackwardCFunction, node), _SAVED)
        for tensor in tensors:
            if tensor is not None:
                self._saved(tensor)
        return tensors


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
