"""Programs that cannot run inside a budget. Each raises a LiveError whose message, of one line, says why."""

import sys
from typing import Any

import torch

from coopsim.live.errors import LiveError
from coopsim.record.observe.roles import Objects
from coopsim.record.observe.torch_private import disabled_torch_dispatch

_TRACED = {"FakeTensor", "FunctionalTensor"}


def objects(found: Objects) -> None:
    """Raise LiveError if the program has FSDP, compiled modules, CUDA graphs, or tensors that dispatch themselves."""
    if found.graphs:
        graphs()
    for module in found.modules:
        names = {kind.__name__ for kind in type(module).__mro__}
        if names & {"FullyShardedDataParallel", "FSDPModule"}:
            raise LiveError("FSDP moves parameters itself: coopsim.live cannot run it inside a budget")
        if "OptimizedModule" in names:
            _compiled()
    for tensor in found.tensors:
        _subclass(tensor)


def arguments(func: Any, args: tuple[Any, ...]) -> None:
    """Raise LiveError for an op that a plain eager program does not have: traced, or of a higher order."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.is_nested and value.layout is torch.strided:
            raise LiveError(f"{func} works on a nested tensor: coopsim.live cannot follow it")
        if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
            if type(value).__name__ in _TRACED:
                _compiled()
            _subclass(value)
    if not hasattr(func, "_schema"):
        raise LiveError(f"{func} is a higher-order operator: coopsim.live cannot follow it")


def start() -> None:
    """Raise LiveError if torch.compile has compiled something in this process: it hides ops."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"].get("ok", 0):
        _compiled()


def resized() -> None:
    """Raise the LiveError for an op that resized a storage, which the caller has noticed."""
    raise LiveError("the step resizes a storage in place (resize_, set_ or out=): coopsim.live cannot follow that")


def other_gpu(its: torch.device, ours: torch.device) -> None:
    """Raise the LiveError for a tensor on another GPU than the one that was current when the step began."""
    raise LiveError(f"a tensor is on {its}, and the step began on {ours}: coopsim.live keeps a budget of one GPU")


def graphs() -> None:
    """Raise the LiveError for a CUDA graph: its ops are not seen in a step, and use old addresses later."""
    raise LiveError("CUDA graphs hide their ops: coopsim.live cannot run them inside a budget")


def _compiled() -> None:
    raise LiveError("torch.compile hides its ops: coopsim.live runs eager programs only")


def _subclass(tensor: torch.Tensor) -> None:
    own = getattr(type(tensor), "__torch_dispatch__", None)
    if own is not None and own not in (torch.Tensor.__torch_dispatch__, disabled_torch_dispatch):
        raise LiveError(f"{type(tensor).__name__} dispatches its ops itself: coopsim.live cannot follow such tensors")
