"""Describe a call of an op as it is priced (prices.py), from its arguments."""

import math
from functools import cache
from typing import Any

import torch

from coopsim.cards.prices import Call, class_of

#: Products in 8 bits count as those in 16, which are no faster.
_UNITS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float8_e4m3fn: "bf16", torch.float8_e5m2: "bf16"}
_CONVOLUTIONS = ("conv", "conv_backward")
_CHANNELS = ("batch_norm", "native_batch_norm")
_ROWS = ("layer_norm",)
#: Ops of a large table read only the rows that they return.
_LOOKS_UP = ("embedding", "gather")
#: Classes whose price depends on more than bytes and the type of the operands.
_BY_SHAPE = ("softmax", "log_softmax", *_CHANNELS, *_ROWS, *_LOOKS_UP, "nll", "pool", "group_norm")


@cache
def kind(func: Any) -> str:
    """Return the class of an op."""
    return class_of(func._schema.name)


def by_shape(func: Any) -> bool:
    """Return whether the price of an op without FLOPs depends on more than its bytes and the type of its operands."""
    return kind(func).removesuffix("_backward") in _BY_SHAPE


def unit(dtype: torch.dtype | None, single: str) -> str:
    """Return what computes products of operands of a type; `single` is that of float32."""
    if dtype is torch.float32:
        return single
    return _UNITS.get(dtype, "fp32") if dtype is not None else "fp32"


def describe(func: Any, named: dict[str, Any], out: Any, flops: int, nbytes: int, unit: str) -> Call:
    """Return the call of an op as it is priced. `named` are its arguments by name, `out` is what it returned."""
    of = kind(func)
    if not flops and not by_shape(func):
        return Call(of, unit, nbytes)
    forward = of.removesuffix("_backward")
    first = _first(named)
    call = Call(of, unit, nbytes, flops, last=_channels_last(first))
    if of in ("matmul", "bmm"):
        sizes = [size for value in named.values() if isinstance(value, torch.Tensor) for size in value.shape[-2:]]
        return call.product(*sizes)
    if forward == "attention":
        return call.causal() if named.get("is_causal") or named.get("custom_mask_type") else call
    if of in _CONVOLUTIONS:
        image = named["input" if "input" in named else "self"]
        transposed = bool(named.get("transposed", func._schema.name.endswith("_transpose")))
        weight, stride, groups = named["weight"], named["stride"], int(named["groups"])
        return call.convolution(image.shape, weight.shape, stride, groups, transposed=transposed)
    if forward in _CHANNELS:
        return call.norm(int(named["input"].size(1)))
    if forward in _ROWS:
        return call.norm(math.prod(named["normalized_shape"]))
    if forward in ("softmax", "log_softmax"):
        return call.norm(int(first.size(named["dim"])) if first.dim() else 1)
    if of == "nll":
        return call.touching(2 * _nbytes(named["target"]))
    if forward == "rnn":
        return call.touching(2 * _nbytes(named["input"]))
    if of in _LOOKS_UP:
        return call.touching(2 * _nbytes(out))
    return call


def _first(named: dict[str, Any]) -> torch.Tensor:
    return next(value for value in named.values() if isinstance(value, torch.Tensor))


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _channels_last(tensor: torch.Tensor) -> bool:
    """Return whether a batch of images or volumes is laid out channels-last and not in the common way, too."""
    kinds = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() not in kinds or tensor.layout is not torch.strided or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=kinds[tensor.dim()])


def operand_dtype(value: Any) -> torch.dtype | None:
    """Return the dtype of the first floating-point tensor in a value, lists and tuples included; None without one."""
    if isinstance(value, torch.Tensor):
        return value.dtype if value.is_floating_point() else None
    if isinstance(value, list | tuple):
        return next((found for found in map(operand_dtype, value) if found is not None), None)
    return None
