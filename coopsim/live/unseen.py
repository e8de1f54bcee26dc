"""Watches the ways to a tensor's bytes that no dispatch mode sees, so that evicted tensors are restored first."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
import torch.utils.dlpack

from coopsim.live import refused
from coopsim.live.state import Context, State
from coopsim.record.observe.torch_private import TorchDispatchMode

_READS, _DLPACK = ("numpy", "data_ptr", "__dlpack__"), ("to_dlpack",)
_ADDRESS, _COPIES = ("data_ptr",), ("copy_", "_write_file")  # of storages
_SAVED = ("saved_tensors",)
_GRAPHS = ("capture_begin", "replay")
_PREPARED = ("prepare_for_backward",)  # of a reducer


class Unseen:
    """Brings back what is about to be read past the dispatcher, between `watch` and `forget`.

    A tensor or storage whose address is asked for stays in place until the step is over. What an autograd function
    written in Python has saved comes back when its backward asks for it: its kernels may read anything. CUDA graphs are
    refused. state: gives the one that the step is in.
    """

    def __init__(self, context: Context, state: Callable[[], State]) -> None:
        self._context, self._state = context, state
        self._before: list[tuple[Any, str, Any]] = []

    def watch(self) -> None:
        """Replace the methods that give access to bytes, in this process, until `forget`."""
        ways: list[tuple[Any, tuple[str, ...], Callable[[Any], Any]]] = [
            (torch.Tensor, _READS, self._reading),
            (torch, _DLPACK, self._reading),
            (torch.utils.dlpack, _DLPACK, self._reading),
            (torch.UntypedStorage, _ADDRESS, self._address),
            (torch.UntypedStorage, _COPIES, self._copying),
            (torch.autograd.function.BackwardCFunction, _SAVED, lambda _: property(self._unpack)),
            (torch.cuda.CUDAGraph, _GRAPHS, lambda _: lambda *_, **__: refused.graphs()),
        ]
        if torch.distributed.is_available():
            ways.append((torch.distributed.Reducer, _PREPARED, self._preparing))  # type: ignore[attr-defined]
        for owner, names, stand_in in ways:
            for name in names:
                own = owner.__dict__.get(name)
                self._before.append((owner, name, own))
                setattr(owner, name, stand_in(getattr(owner, name)))

    def forget(self) -> None:
        """Restore the methods that `watch` has replaced; does nothing if there are none."""
        while self._before:
            owner, name, own = self._before[-1]
            if own is not None:
                setattr(owner, name, own)
            elif name in vars(owner):
                delattr(owner, name)  # it was inherited
            self._before.pop()

    # -- what stands in for the methods ------------------------------------------------------------------------------

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._is_ours(tensor):
                self._locate(tensor.untyped_storage())
            return original(tensor, *args, **kwargs)

        return read

    def _address(self, original: Callable[..., int]) -> Callable[..., int]:
        def read(storage: torch.UntypedStorage) -> int:
            residency = self._context.residency
            if sys._getframe(1).f_globals.get("__name__") != "torch.serialization":
                self._locate(storage)
            elif residency.device_type == "cuda" and residency.evicted_at(storage) is not None:
                return 0  # torch.save only compares it, and copies to the host later, one storage after the other
            return original(storage)

        return read

    def _copying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def copy(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as contexts:
                for storage in args:
                    if isinstance(storage, torch.UntypedStorage):
                        contexts.enter_context(self._while_copied(storage))
                return original(*args, **kwargs)

        return copy

    def _preparing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Bring back, and keep on the device, what a reducer compares in the backward pass that begins."""

        def prepare(reducer: Any, *args: Any) -> Any:
            out = original(reducer, *args)
            with self._state().in_python():
                buckets, parameters = _compared(reducer)
            for tensor in (*buckets, *(one.grad for one in parameters if one.grad is not None)):
                self._bring_back(tensor)
            self._context.values.spilled.keep(buckets, parameters)
            return out

        return prepare

    def _unpack(self, node: Any) -> Any:
        tensors = getattr(super(torch.autograd.function.BackwardCFunction, node), *_SAVED)
        for tensor in tensors:
            if tensor is not None:
                self._bring_back(tensor)
        return tensors

    # -- what they do ------------------------------------------------------------------------------------------------

    def _is_ours(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == self._context.residency.device_type and tensor.layout is torch.strided

    def _bring_back(self, tensor: torch.Tensor) -> None:
        if self._is_ours(tensor):
            self._state().materialize(tensor.untyped_storage())

    def _locate(self, storage: torch.UntypedStorage) -> None:
        """Bring back a storage, and keep it in place until the step is over, as the program knows its address."""
        if storage.device.type == self._context.residency.device_type and storage.nbytes():
            self._state().materialize(storage)
            self._state().pin(storage)
            self._context.residency.ledger.locate(storage)

    @contextmanager
    def _while_copied(self, storage: torch.UntypedStorage) -> Iterator[None]:
        """Keep a storage in place once it is back: a copy is several ops, of which some do not name it as a tensor."""
        with self._state().in_python():
            self._state().materialize(storage)
            tracked = self._context.storages.known(storage)
            with tracked.in_place() if tracked is not None else nullcontext():
                yield


class _AsItIs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Gives an op's operand in place of what the op would make."""

    def __torch_dispatch__(self, _func: Any, _types: Any, args: Any = (), _kwargs: Any = None) -> Any:
        return args[0]


def _compared(reducer: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The buckets of DistributedDataParallel's reducer, and the parameters whose gradients it compares with them.

    It does so past the dispatcher, in the backward pass.
    Not to be called from within one of its methods or hooks, which hold its lock. No other dispatch mode may be in the
    way that runs ops before Python's do.
    """
    with _AsItIs():  # type: ignore[no-untyped-call]
        buckets = reducer._get_zeros_like_grad_buckets()
    return [bucket.buffer() for bucket in buckets], [one for bucket in buckets for one in bucket.parameters()]
