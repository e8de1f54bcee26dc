"""Ops over images, channels first or last: each is made with operands on the GPU, for a case of shapes.py."""

import json
from collections.abc import Callable
from typing import Any

import torch

from coopsim.calibrate.ops_rows import Call, dtype_of
from coopsim.calibrate.shapes import MeasuredCase

_aten: Any = torch.ops.aten
_F = torch.nn.functional


def _images(case: MeasuredCase) -> torch.Tensor:
    a = torch.randn(case.shape, device="cuda", dtype=dtype_of(case))
    return a.to(memory_format=torch.channels_last) if case.op.endswith(" last") else a


def _ones(case: MeasuredCase, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(case.shape[1], device="cuda", dtype=dtype)


def _batch_norm(op: str) -> Callable[[MeasuredCase], Call]:
    def make(case: MeasuredCase) -> Call:
        a, ones = _images(case), _ones(case)
        return lambda: getattr(_aten, op)(a, ones, ones, ones, ones, True, 0.1, 1e-5)

    return make


def _batch_norm_backward(case: MeasuredCase) -> Call:
    a, ones = _images(case), _ones(case)
    _, mean, rstd = _aten.native_batch_norm(a, ones, ones, ones, ones, True, 0.1, 1e-5)
    how = True, 1e-5, [True] * 3
    return lambda: _aten.native_batch_norm_backward(a, a, ones, ones, ones, mean, rstd, *how)


def _group_norm(case: MeasuredCase) -> Call:
    a, ones = _images(case), _ones(case, dtype_of(case))
    return lambda: _F.group_norm(a, 32, ones, ones)


def _one(make: Callable[[torch.Tensor], Any]) -> Callable[[MeasuredCase], Call]:
    return lambda case: (lambda a: lambda: make(a))(_images(case))


OPS: dict[str, Callable[[MeasuredCase], Call]] = {
    "batch_norm": _batch_norm("native_batch_norm"),
    "cudnn_batch_norm": _batch_norm("cudnn_batch_norm"),
    "batch_norm_backward": _batch_norm_backward,
    "max_pool": _one(lambda a: _aten.max_pool2d_with_indices(a, [3, 3], [2, 2], [1, 1])),
    "avg_pool": _one(lambda a: _F.adaptive_avg_pool2d(a, 1)),
    "upsample": _one(lambda a: _F.interpolate(a, scale_factor=2)),
    "group_norm": _group_norm,
}


def convolution(case: MeasuredCase) -> Callable[[], Any]:
    """Return a call of the convolution, with operands that it has made on the GPU."""
    aten: Any = torch.ops.aten
    sizes, bias, stride, padding, dilation, transposed, output_padding, groups, _ = json.loads(case.more)
    dtype = getattr(torch, case.dtype)
    x = torch.randn(case.shape, device="cuda", dtype=dtype)
    w = torch.randn(sizes, device="cuda", dtype=dtype)
    if case.layout == "last":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    b = torch.zeros(sizes[1] * groups if transposed else sizes[0], device="cuda", dtype=dtype) if bias else None
    how = stride, padding, dilation, transposed, output_padding, groups
    if case.op == "forward":
        return lambda: aten.convolution.default(x, w, b, *how)
    grad = torch.randn_like(aten.convolution.default(x, w, b, *how))
    wanted = [case.op == "backward", True, bias]
    return lambda: aten.convolution_backward.default(grad, x, w, [b.numel()] if b is not None else None, *how, wanted)
