"""The ops that are timed: each is made with operands on the GPU, for a case of shapes.py.

Ops over elements and rows, over images (channels first or last), products of matrices, attention and optimizers.
"""

import ast
import json
from collections.abc import Callable
from typing import Any

import torch

from coopsim.calibrate.shapes import MeasuredCase

Call = Callable[[], Any]
_aten: Any = torch.ops.aten
_F = torch.nn.functional


def _dtype_of(case: MeasuredCase) -> torch.dtype:
    found: torch.dtype = getattr(torch, case.dtype)
    return found


def _random(case: MeasuredCase, *sizes: int) -> torch.Tensor:
    """Operands of the case's shape, or of these sizes."""
    return torch.randn(sizes or case.shape, device="cuda", dtype=_dtype_of(case))


def _two(make: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[MeasuredCase], Call]:
    def op(case: MeasuredCase) -> Call:
        a, b = _random(case), _random(case)
        return lambda: make(a, b)

    return op


def _one(
    make: Callable[[torch.Tensor], Any], operand: Callable[[MeasuredCase], torch.Tensor] = _random
) -> Callable[[MeasuredCase], Call]:
    return lambda case: (lambda a: lambda: make(a))(operand(case))


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
    columns, dtype = case.shape[1], _dtype_of(case)
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
    table = torch.randn(case.shape[1], 1024, device="cuda", dtype=_dtype_of(case))
    tokens = _classes(case)
    return lambda: _F.embedding(tokens, table)


def _images(case: MeasuredCase) -> torch.Tensor:
    a = _random(case)
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
    a, ones = _images(case), _ones(case, _dtype_of(case))
    return lambda: _F.group_norm(a, 32, ones, ones)


def _mm(case: MeasuredCase) -> Call:
    m, k, n = case.shape
    a, b = _random(case, m, k), _random(case, k, n)
    return lambda: a @ b


def _addmm(case: MeasuredCase) -> Call:
    m, k, n = case.shape
    bias, a, b = _random(case, n), _random(case, m, k), _random(case, k, n)
    return lambda: torch.addmm(bias, a, b)


def _bmm(case: MeasuredCase) -> Call:
    batch, m, k, n = case.shape
    a, b = _random(case, batch, m, k), _random(case, batch, k, n)
    return lambda: torch.bmm(a, b)


def _attention(case: MeasuredCase) -> tuple[torch.Tensor, Call]:
    heads, length, width = case.shape
    q = _random(case, heads // 8, 8, length, width).requires_grad_()
    return q, lambda: _F.scaled_dot_product_attention(q, q, q, is_causal=True)


def _attention_backward(case: MeasuredCase) -> Call:
    q, forward = _attention(case)
    out = forward()
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, q, grad, retain_graph=True)


def _parameters(case: MeasuredCase) -> list[torch.nn.Parameter]:
    size, count = case.shape
    found = [torch.nn.Parameter(_random(case, size)) for _ in range(count)]
    for parameter in found:
        parameter.grad = torch.randn_like(parameter)
    return found


def _optimizer(kind: type[torch.optim.Optimizer], **options: float) -> Callable[[MeasuredCase], Call]:
    def make(case: MeasuredCase) -> Call:
        how = ast.literal_eval(case.op.partition(" ")[2])
        optimizer = kind(_parameters(case), **options, **how)  # type: ignore[arg-type]
        return optimizer.step

    return make


def _clip(case: MeasuredCase) -> Call:
    parameters = _parameters(case)
    return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)


#: By name; convolutions are apart, as each has arguments of its own.
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
    "batch_norm": _batch_norm("native_batch_norm"),
    "cudnn_batch_norm": _batch_norm("cudnn_batch_norm"),
    "batch_norm_backward": _batch_norm_backward,
    "max_pool": _one(lambda a: _aten.max_pool2d_with_indices(a, [3, 3], [2, 2], [1, 1]), _images),
    "avg_pool": _one(lambda a: _F.adaptive_avg_pool2d(a, 1), _images),
    "upsample": _one(lambda a: _F.interpolate(a, scale_factor=2), _images),
    "group_norm": _group_norm,
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "sdpa": lambda case: _attention(case)[1],
    "sdpa_backward": _attention_backward,
    "adamw": _optimizer(torch.optim.AdamW),
    "sgd": _optimizer(torch.optim.SGD, momentum=0.9, lr=0.1),
    "clip": _clip,
}


def convolution(case: MeasuredCase) -> Callable[[], Any]:
    """Return a call of the convolution, with operands that it has made on the GPU."""
    sizes, bias, stride, padding, dilation, transposed, output_padding, groups, _ = json.loads(case.more)
    dtype = _dtype_of(case)
    x = _random(case)
    w = _random(case, *sizes)
    if case.layout == "last":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    b = torch.zeros(sizes[1] * groups if transposed else sizes[0], device="cuda", dtype=dtype) if bias else None
    how = stride, padding, dilation, transposed, output_padding, groups
    if case.op == "forward":
        return lambda: _aten.convolution.default(x, w, b, *how)
    grad = torch.randn_like(_aten.convolution.default(x, w, b, *how))
    wanted = [case.op == "backward", True, bias]
    return lambda: _aten.convolution_backward.default(grad, x, w, [b.numel()] if b is not None else None, *how, wanted)
