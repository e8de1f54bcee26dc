"""Data that nobody has computed are finite: what follows from that for tests on them.

`isfinite` comes here as its formula, `x == x` and `abs(x) != inf`. Known data, integers and truth values, are computed.
"""

import math
from typing import Any

import torch

from coopsim.record.observe.native import memory

_ANSWERS = {"isfinite": True, "isnan": False, "isinf": False, "isposinf": False, "isneginf": False}
_OF_ITSELF = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}
_BELOW_INFINITY = {"eq": False, "ne": True, "lt": True, "le": True, "gt": False, "ge": False}
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

#: Names of the ops that may be such a test.
OPS = frozenset(f"aten::{name}" for name in (*_ANSWERS, *_OF_ITSELF))


def always(name: str, args: Any) -> bool | None:
    """Return what the op `name` ("eq", "isnan", …) gives for every element of finite floating-point data.

    None if it is no test for finite data: it compares with anything but infinity, NaN or the data themselves.
    """
    if not args or not isinstance(args[0], torch.Tensor) or not _is_float(args[0]):
        return None
    if name in _ANSWERS:
        return _ANSWERS[name]
    if name not in _OF_ITSELF or len(args) < 2:
        return None
    one, other = args[:2]
    if isinstance(other, torch.Tensor) and other.is_cuda:
        return _OF_ITSELF[name] if one.is_cuda and _is_same(one, other) else None
    if isinstance(other, torch.Tensor) and other.dim() == 0:
        other = other.item()
    if not isinstance(other, float) or math.isfinite(other):
        return None
    if math.isnan(other):
        return name == "ne"
    return _BELOW_INFINITY[name if other > 0 else _SWAPPED.get(name, name)]


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (
        memory(one) == memory(other)
        and int(one.storage_offset()) == int(other.storage_offset())
        and (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
    )
