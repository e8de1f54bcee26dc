"""The precision of float32 products in traces: as the program sets it, op by op, or as --precision says."""

import pytest

from coopsim.trace import Trace, load

TEXT = """
import torch
x, image = torch.ones(4096, 4096, device="cuda"), torch.ones(32, 64, 64, 64, device="cuda")
kernel = torch.ones(64, 64, 3, 3, device="cuda")
def step():
    x @ x
    torch.backends.cuda.matmul.allow_tf32 = True
    x @ x
    torch.backends.cuda.matmul.allow_tf32 = False
    x.bfloat16() @ x.bfloat16()
    torch.nn.functional.conv2d(image, kernel)
"""


def rates(trace: Trace) -> list[int]:
    """TFLOP/s of the ops with FLOPs."""
    return [round(f / c / 1000) for f, c in zip(trace.flops, trace.cost_ns, strict=True) if f]


@pytest.mark.parametrize(
    ("options", "named", "products"),
    [
        ({}, "fp32 (matrix products), tf32 (matrix products, convolutions)", (False, True, True)),
        ({"precision": "fp32"}, "fp32", (False, False, False)),
        ({"precision": "tf32"}, "tf32", (True, True, True)),
    ],
    ids=["as set", "fp32", "tf32"],
)
def test_precision(record, options: dict, named: str, products: tuple[bool, ...]) -> None:
    trace = load(record(TEXT, **options))
    first, second, half, convolution = rates(trace)
    fp32, tf32 = 18, 94  # 0.9 of 19.5, 0.6 of 156
    assert trace.header["precision"] == named
    assert [rate == tf32 for rate in (first, second, convolution)] == list(products)
    assert {first, second, convolution} <= {fp32, tf32}
    assert half == 187
    assert ("TF32" in trace.header["cost_source"]) == any(products)
