"""What cannot run inside a budget: each is refused with one line."""

import sys
from typing import Any

import torch

from coopsim.live.errors import LiveError
from coopsim.observe.roles import Objects
from coopsim.observe.torch_private import disabled_torch_dispatch

_TRACED = {"FakeTensor", "FunctionalTensor"}


def objects(found: Objects) -> None:
    """LiveError for a program whose objects say that it cannot be followed."""
    for module in found.modules:
        names = {kind.__name__ for kind in type(module).__mro__}
        if names & {"FullyShardedDataParallel", "FSDPModule"}:
            raise LiveError("FSDP moves parameters itself: coopsim.live cannot run it inside a budget")
        if "OptimizedModule" in names:
            _compiled()
    for tensor in found.tensors:
        _subclass(tensor)


def arguments(func: Any, args: tuple[Any, ...]) -> None:
    """LiveError for an op that is not one of a plain eager program."""
    for value in args:
        if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
            if type(value).__name__ in _TRACED:
                _compiled()
            _subclass(value)
    if not hasattr(func, "_schema"):
        raise LiveError(f"{func} is a higher-order operator: coopsim.live cannot follow it")


def start() -> None:
    """LiveError if something is on already that hides ops."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"].get("ok", 0):
        _compiled()


def resized() -> None:
    """An op resized a storage."""
    raise LiveError("the step resizes a storage in place (resize_, set_ or out=): coopsim.live cannot follow that")


def graphs() -> None:
    """A CUDA graph was captured or replayed."""
    raise LiveError("CUDA graphs hide their ops: coopsim.live cannot run them inside a budget")


def _compiled() -> None:
    raise LiveError("torch.compile hides its ops: coopsim.live runs eager programs only")


def _subclass(tensor: torch.Tensor) -> None:
    own = getattr(type(tensor), "__torch_dispatch__", None)
    if own is not None and own not in (torch.Tensor.__torch_dispatch__, disabled_torch_dispatch):
        raise LiveError(f"{type(tensor).__name__} dispatches its ops itself: coopsim.live cannot follow such tensors")
