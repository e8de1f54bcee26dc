"""Tell what an op does besides making its outputs: which arguments it mutates, and whether it draws random numbers.

Both follow from the op's schema, except for the ops in the tables here. Source: native_functions.yaml of PyTorch 2.14,
the kernels' code, and torch/csrc/distributed/c10d/Ops.cpp. An op, `func`, is an overload of PyTorch's, such as
torch.ops.aten.add_.Tensor; the device is the one that is watched (`on`), by default a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch

from coopsim.record.observe.torch_private import is_traceable_wrapper_subclass

#: Ops that are declared as mutating, but do not change data.
_HARMLESS = {"aten::record_stream"}

#: Mutations that the schema does not declare: op → names of the arguments. An op with a training flag does them only in
#: training (see `mutated`).
_UNDECLARED = {
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_update_stats": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
    "aten::_cudnn_rnn": ("dropout_state",),
    "aten::_cudnn_rnn_backward": ("reserve",),
    "fsdp::all_gather_copy_in": ("all_gather_output",),
    "c10d::broadcast_": ("tensors",),
    "c10d::allreduce_": ("tensors",),
    "c10d::allreduce_coalesced_": ("tensors",),
    "c10d::reduce_": ("tensors",),
    "c10d::recv_": ("tensors",),
    "c10d::recv_any_source_": ("tensors",),
    "c10d::allgather_": ("output_tensors",),
    "c10d::_allgather_base_": ("output_tensor",),
    "c10d::allgather_coalesced_": ("output_lists",),
    "c10d::allgather_into_tensor_coalesced_": ("outputs",),
    "c10d::gather_": ("output_tensors",),
    "c10d::gather_into_tensor_": ("output_tensor",),
    "c10d::scatter_": ("output_tensors",),
    "c10d::reduce_scatter_": ("output_tensors",),
    "c10d::_reduce_scatter_base_": ("output_tensor",),
    "c10d::reduce_scatter_tensor_coalesced_": ("outputs",),
    "c10d::alltoall_": ("output_tensors",),
    "c10d::alltoall_base_": ("output",),
}
BLANK = ("aten.empty", "aten.new_empty")  #: how the names of ops begin that write nothing
WHEN_TRAINING = ("training", "train")
SCALE = "grad_scale"

#: Ops whose randomness depends on arguments: op → arguments any of which switches it off by being 0 or False.
_RANDOM_IF = {
    "aten::native_dropout": ("p", "train"),
    "aten::_fused_dropout": (),
    "aten::rrelu_with_noise": ("training",),
    "aten::_cudnn_rnn": ("dropout", "train"),
}


def arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of an op by name, defaults included; those without a value are left out."""
    found = {}
    for i, a in enumerate(func._schema.arguments):
        if a.name in kwargs:
            found[a.name] = kwargs[a.name]
        elif i < len(args):
            found[a.name] = args[i]
        elif a.has_default_value():
            found[a.name] = a.default_value
    return found


class Rule(NamedTuple):
    """The names of the arguments whose data an op changes.

    `always`: in every call; `if_given`: in calls in which argument SCALE is not None; `if_training`: in calls in which
    the arguments of WHEN_TRAINING that the op has are true.
    """

    always: frozenset[str] = frozenset()
    if_given: frozenset[str] = frozenset()
    if_training: frozenset[str] = frozenset()


@cache
def rule(func: Any) -> Rule:
    """Return the names of the arguments whose data an op changes, by the condition under which it does (Rule)."""
    name = func._schema.name
    if name in _HARMLESS or torch.Tag.inplace_view in func.tags:
        return Rule()
    found = {a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    # gradients are unscaled in place only where there is a scale
    scaled = found & {"grads"} if name.startswith("aten::_fused_") else set()
    undeclared = set(_UNDECLARED.get(name, ())) - found
    return Rule(frozenset(found - scaled), frozenset(scaled), frozenset(undeclared))


def mutated(func: Any, named: dict[str, Any]) -> set[str]:
    """Return the names of the arguments whose data this call changes; `named` are its arguments (see `arguments`)."""
    always, if_given, if_training = rule(func)
    found = set(always)
    if if_given and named.get(SCALE) is not None:
        found |= if_given
    if if_training and all(named.get(flag, True) for flag in WHEN_TRAINING):
        found |= if_training
    return found


def is_blank(func: Any) -> bool:
    """Return whether what an op makes has nothing in it that the op has written."""
    return str(func).startswith(BLANK)


def is_random(func: Any, named: dict[str, Any]) -> bool:
    """Return whether this call draws random numbers from a generator; `named` are its arguments (see `arguments`)."""
    name: str = func._schema.name
    if torch.Tag.nondeterministic_seeded not in func.tags or name.endswith("_backward"):
        return False
    if "dropout_p" in named:  # attention
        return bool(named["dropout_p"])
    # native_dropout's `train` may be None, which means that it does drop
    return all(named.get(flag, True) not in (0, 0.0, False) for flag in _RANDOM_IF.get(name, ()))


#: The type of the device ("cuda") whose tensors `tensors` yields.
_watched = "cuda"


@contextmanager
def on(kind: str) -> Iterator[None]:
    """Within the context, let `tensors` yield tensors on devices of type `kind` ("cpu") only, not those of a GPU."""
    global _watched
    before, _watched = _watched, kind
    try:
        yield
    finally:
        _watched = before


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the device's tensors in an argument or a result, in order.

    These are the value itself, or tensors within lists, tuples, wrapper subclasses (DTensors) and sparse tensors.
    """
    if is_traceable_wrapper_subclass(value):
        for name in value.__tensor_flatten__()[0]:
            yield from tensors(getattr(value, name))
    elif isinstance(value, torch.Tensor):
        if value.device.type == _watched:
            yield from _parts(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the strided tensors that a tensor consists of: itself, or the indices and values of a sparse tensor."""
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()
