"""What libraries take of PyTorch's allocator while an op runs: cuBLAS, and convolutions and recurrent layers."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.calibrate import on_card, ops, shapes
from coopsim.calibrate.shapes import MeasuredCase


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the measurements: bytes that are freed again (of cuBLAS: that are kept)."""
    yield "cublas", _cublas
    for case in shapes.convolutions():
        yield case.key, lambda case=case: _convolution(case)  # type: ignore[misc]
    for case in shapes.recurrent():
        yield case.key, lambda case=case: _recurrent(case)  # type: ignore[misc]


def _cublas() -> dict[str, Any]:
    a = torch.randn(512, 512, device="cuda")
    out, _, kept = on_card.took(lambda: a @ a)
    row = MeasuredCase("op", "cublas", "float32", "", (512, 512, 512)).row()
    return row | {"bytes": kept - out.nbytes}


def _convolution(case: MeasuredCase) -> dict[str, Any]:
    _, freed, _ = on_card.took(ops.convolution(case))
    return case.row() | {"bytes": freed}


def _recurrent(case: MeasuredCase) -> dict[str, Any]:
    kind, way = case.op.split()
    hidden, layers, both = json.loads(case.more)
    dtype = getattr(torch, case.dtype)
    batch, length, width = case.shape
    layer = getattr(torch.nn, kind)(width, hidden, layers, batch_first=True, bidirectional=both).to("cuda", dtype)
    x = torch.randn(batch, length, width, device="cuda", dtype=dtype, requires_grad=True)
    (out, _), freed, _ = on_card.took(lambda: layer(x))
    if way == "backward":
        grad = torch.randn_like(out)
        _, freed, _ = on_card.took(lambda: out.backward(grad))
    return case.row() | {"bytes": freed}
