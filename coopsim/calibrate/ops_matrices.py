"""Products of matrices, attention and optimizers: each is made with operands on the GPU, for a case of shapes.py."""

import ast
from collections.abc import Callable

import torch

from coopsim.calibrate.ops_rows import Call, dtype_of
from coopsim.calibrate.shapes import MeasuredCase


def _random(case: MeasuredCase, *sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=dtype_of(case))


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
    return q, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)


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


OPS: dict[str, Callable[[MeasuredCase], Call]] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "sdpa": lambda case: _attention(case)[1],
    "sdpa_backward": _attention_backward,
    "adamw": _optimizer(torch.optim.AdamW),
    "sgd": _optimizer(torch.optim.SGD, momentum=0.9, lr=0.1),
    "clip": _clip,
}
