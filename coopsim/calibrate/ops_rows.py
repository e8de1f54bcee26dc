"""Ops over elements and over rows: each is made with operands on the GPU, for a case of shapes.py."""

from collections.abc import Callable
from typing import Any

import torch

from coopsim.calibrate.shapes import MeasuredCase

Call = Callable[[], Any]
_aten: Any = torch.ops.aten
_F = torch.nn.functional


def dtype_of(case: MeasuredCase) -> torch.dtype:
    """Return the type of a case's operands."""
    found: torch.dtype = getattr(torch, case.dtype)
    return found


def _random(case: MeasuredCase) -> torch.Tensor:
    return torch.randn(case.shape, device="cuda", dtype=dtype_of(case))


def _two(make: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[MeasuredCase], Call]:
    def op(case: MeasuredCase) -> Call:
        a, b = _random(case), _random(case)
        return lambda: make(a, b)

    return op


def _one(make: Callable[[torch.Tensor], Any]) -> Callable[[MeasuredCase], Call]:
    return lambda case: (lambda a: lambda: make(a))(_random(case))


def _to(case: MeasuredCase) -> Call:
    a = _random(case)
    other = torch.bfloat16 if a.dtype == torch.float32 else torch.float32
    return lambda: a.to(other)


def _layer_norm(case: MeasuredCase) -> Call:
    a, weight, bias = _random(case), *_affine(case)
    return lambda: _aten.native_layer_norm(a, case.shape[1:], weight, bias, 1e-5)


def _layer_norm_backward(case: MeasuredCase) -> Call:
    a, (weight, bias) = _random(case), _affine(case)
    _, mean, rstd = _aten.native_layer_norm(a, case.shape[1:], weight, bias, 1e-5)
    return lambda: _aten.native_layer_norm_backward(a, a, case.shape[1:], mean, rstd, weight, bias, [True] * 3)


def _affine(case: MeasuredCase) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases of a norm over rows."""
    columns, dtype = case.shape[1], dtype_of(case)
    return torch.ones(columns, device="cuda", dtype=dtype), torch.zeros(columns, device="cuda", dtype=dtype)


def _softmax_backward(case: MeasuredCase) -> Call:
    a = _random(case)
    s = torch.softmax(a, -1)
    return lambda: _aten._softmax_backward_data(a, s, -1, a.dtype)


def _classes(case: MeasuredCase) -> torch.Tensor:
    return torch.randint(0, case.shape[1], case.shape[:1], device="cuda")


def _nll(case: MeasuredCase) -> Call:
    a, classes = _random(case), _classes(case)
    return lambda: _aten.nll_loss_forward(a, classes, None, 1, -100)


def _embedding(case: MeasuredCase) -> Call:
    """Rows of a table with as many rows as the case has columns, as vocabularies have."""
    table = torch.randn(case.shape[1], 1024, device="cuda", dtype=dtype_of(case))
    tokens = _classes(case)
    return lambda: _F.embedding(tokens, table)


OPS: dict[str, Callable[[MeasuredCase], Call]] = {
    "add": _two(torch.add),
    "add_": _two(lambda a, b: a.add_(b)),
    "mul": _two(torch.mul),
    "gelu": _one(_F.gelu),
    "gelu_backward": _two(lambda a, b: _aten.gelu_backward(b, a)),
    "copy": _one(torch.clone),
    "to": _to,
    "sum": _one(torch.sum),
    "dropout": _one(lambda a: _aten.native_dropout(a, 0.1, True)),
    "where": _two(lambda a, b: torch.where(a > 0, a, b)),
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "softmax": _one(lambda a: torch.softmax(a, -1)),
    "softmax_backward": _softmax_backward,
    "log_softmax": _one(lambda a: torch.log_softmax(a, -1)),
    "sum_rows": _one(lambda a: a.sum(0)),
    "sum_cols": _one(lambda a: a.sum(1)),
    "nll": _nll,
    "embedding": _embedding,
}
