"""What ops cost, and how their FLOPs are counted."""

import json
from pathlib import Path

import pytest

from tests.record.observe.runs import HERE, watched

CONVOLUTIONS = """
import math, torch
from coopsim.record.observe import effects, flops
A = torch.ops.aten
CASES = [  # image, weight, stride, padding, dilation, transposed, groups
    ((2, 8, 14, 14), (16, 8, 3, 3), 1, 1, 1, False, 1),
    ((2, 8, 14, 14), (16, 4, 3, 3), 2, 1, 1, False, 2),
    ((32, 320, 14, 14), (320, 1, 3, 3), 1, 1, 1, False, 320),
    ((2, 8, 14, 14), (8, 16, 2, 2), 2, 0, 1, True, 1),
    ((2, 8, 14, 14), (8, 4, 2, 2), 2, 0, 1, True, 4),
    ((2, 8, 14, 14), (16, 8, 3, 3), 1, 2, 2, False, 1),
    ((2, 8, 50), (16, 8, 5), 1, 2, 1, False, 1),
    ((2, 4, 6, 6, 6), (8, 4, 3, 3, 3), 1, 1, 1, False, 1),
]
def count(func, *args):
    out = func(*args)
    return out, flops.flops(func, args, {}, effects.arguments(func, args, {}), out)
found = []
for image, weight, *each, transposed, groups in CASES:
    x, w = torch.empty(image, device="meta"), torch.empty(weight, device="meta")
    settings = *([value] * (len(image) - 2) for value in each), transposed, [0] * (len(image) - 2), groups
    y, forward = count(A.convolution.default, x, w, None, *settings)
    masks = (True, True, False), (True, False, False), (False, True, True), (False, False, True)
    back = [count(A.convolution_backward.default, y, x, w, [weight[0]], *settings, list(mask))[1] for mask in masks]
    pixels = math.prod((x if transposed else y).shape) // (x if transposed else y).size(1)
    found.append([forward, 2 * pixels * w.numel(), [n / forward for n in back]])
answer(found)
"""


def test_flops_of_convolutions(on_phantom) -> None:
    """Two for each pixel and weight, and as many for each of the gradients; groups or not."""
    for forward, by_hand, backward in on_phantom(CONVOLUTIONS):
        assert forward == by_hand
        assert backward == [2, 1, 1, 0]


ATTENTION = """
import torch
from coopsim.record.observe import effects, flops
A = torch.ops.aten
def count(name, *args):
    func = getattr(A, name).default
    return flops.flops(func, args, {}, effects.arguments(func, args, {}), None)
def heads(n, length=128, width=64): return torch.empty(2, n, length, width, device="meta")
def turned(t): return t.transpose(1, 2)
q, k, v = heads(8), heads(8, 256), heads(8, 256, 32)
few, e = heads(2, 256), torch.empty(0, device="meta")
packed, starts = torch.empty(512, 8, 64, device="meta"), torch.empty(5, dtype=torch.int32, device="meta")
answer({
    "efficient": count("_scaled_dot_product_efficient_attention", q, k, v, None, False),
    "causal": count("_scaled_dot_product_efficient_attention", q, k, v, None, False, 0.0, True),
    "grouped": count("_scaled_dot_product_flash_attention", q, few, few),
    "cudnn": count("_scaled_dot_product_cudnn_attention", q, k, v, None, False),
    "turned": count("_flash_attention_forward", *map(turned, (q, k, v)), None, None, 0, 0, 0.0, False, False),
    "packed": count("_flash_attention_forward", packed, packed, packed, starts, starts, 0, 0, 0.0, False, False),
    "backward": count("_scaled_dot_product_efficient_attention_backward", q, q, k, v, None, e, e, e, e, 0.0,
                      [True] * 4),
    "few, backward": count("_scaled_dot_product_flash_attention_backward", q, q, few, few, e, e, e, e, 0, 0, 0.0, False,
                           e, e),
})
"""


def test_flops_of_attention(on_phantom) -> None:
    """All kernels, grouped queries and packed sequences, which are taken as equally long; causal masks save nothing."""
    pairs = 2 * 8 * 128 * 256
    narrow, wide = 2 * pairs * (64 + 32), 4 * pairs * 64
    assert on_phantom(ATTENTION) == {
        **dict.fromkeys(("efficient", "causal", "cudnn", "turned"), narrow),
        "grouped": wide,
        "packed": 4 * 8 * 512 * 128 * 64,
        "backward": 2 * pairs * (3 * 64 + 2 * 32),
        "few, backward": 10 * pairs * 64,
    }


OTHERS = """
import torch
from coopsim.record.observe import effects, flops
from torch.utils.flop_counter import flop_registry
A = torch.ops.aten
lstm = {"input": torch.empty(5, 7, 4), "weight": [torch.empty(12, 4), torch.empty(12, 3), torch.empty(12)]}
def fails(*args, **kwargs): raise ValueError("no shape")
before = flop_registry[A.mm]
flop_registry[A.mm] = fails
args = torch.empty(2, 3, device="meta"), torch.empty(3, 4, device="meta")
failed = flops.flops(A.mm.default, args, {}, effects.arguments(A.mm.default, args, {}), None)
flop_registry[A.mm] = before
counted = flops.flops(A.mm.default, args, {}, effects.arguments(A.mm.default, args, {}), torch.mm(*args))
answer([flops._rnn("", lstm, None), failed, counted])
"""


def test_a_formula_that_raises_ends_no_run(on_phantom) -> None:
    """An LSTM of 35 tokens; a formula of PyTorch's that raises gives 0."""
    assert on_phantom(OTHERS) == [2 * 35 * (48 + 36), 0, 2 * 2 * 3 * 4]


def test_the_library_prices_as_python_does(tmp_path: Path, phantom_gpu: None) -> None:
    """To the ns: ops that it prices by their bytes, and ops whose prices it has asked for, by shapes and layout."""
    out = tmp_path / "ns.json"
    watched(HERE / "prices.py", out)
    alone, by_python = json.loads(out.read_text())
    assert alone == by_python
    assert alone["empty"] == 0
    assert min(ns for name, ns in alone.items() if name != "empty") > 1000
    assert alone["attention, causal"] < alone["attention"]
    for op in ("pool", "batch norm", "conv"):
        assert alone[op] != alone[f"{op}, last"]


@pytest.mark.parametrize("card", ["a100-80gb", "v100-32gb"])
def test_ops_without_a_kernel_cost_nothing(on_phantom, card: str) -> None:
    text = """
import torch
from coopsim.record.observe import effects
from coopsim.record.observe.costs import OpCostModel
from coopsim.cards import profiles
model, func = OpCostModel(profiles.get(CARD), None), torch.ops.aten.empty_like.default
x = torch.empty(1000, device="cuda")
named = effects.arguments(func, (x,), {})
call = model.call(func, (x,), {}, named, x, 8000)
answer([model.nanoseconds(str(func), call), model.moving(0), model.moving(10**9)])
"""
    nothing, least, gigabyte = on_phantom(f"CARD = {card!r}\n" + text)
    assert nothing == 0
    assert 2000 < least < 4000
    bandwidth = {"a100-80gb": 2039, "v100-32gb": 900}[card]
    assert 0.8 * bandwidth < 1e9 / (gigabyte - least) < bandwidth
