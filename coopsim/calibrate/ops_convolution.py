"""The convolutions that are timed, forward and backward."""

import json
from collections.abc import Callable
from typing import Any

import torch

from coopsim.calibrate.shapes import Case


def call(case: Case) -> Callable[[], Any]:
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
