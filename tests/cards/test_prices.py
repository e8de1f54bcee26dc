"""A price by hand, with each feature that it may depend on."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.cards import prices, profiles
from coopsim.cards.prices import Call, class_of, price

#: A card whose TF32 is 100, whose FP32 is 10 FLOPs per ns, at 10 bytes per ns.
CARD: Any = SimpleNamespace(
    title="card", source="hand", tf32_tflops=0.1, fp32_tflops=0.01, bf16_tflops=0.2, fp16_tflops=0.2, bandwidth_gbs=10
)
TABLE = {
    "elementwise": {"a": 10, "b": 0.5, "b16": 0.25},
    "norm": {"a": 0, "b": 1, "c0": 100},
    "matmul": {"a": 0, "b": 1, "f": 0.5, "f16": 0.4, "odd": 0.5, "odd16": 0.25},
    "conv": {"a": 0, "b": 1, "bl": 2, "f": 0.5, "fl": 2, "co": 64, "k": 100},
    "pointwise": {"a": 0, "b": 1, "bo": 0.5, "f": 1},
    "depthwise": {"a": 0, "b": 1, "v": 0.5},
    "attention": {"a": 0, "b": 1, "v": 0.5, "f16": 0.4},
}


def ns(call: Call) -> int:
    return price(call, TABLE, 0.8, CARD)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call("free", nbytes=10**6), 0),
        (Call(nbytes=1000), 10 + 200),
        (Call(unit="bf16", nbytes=1000), 10 + 400),
        (Call("of no class", nbytes=1000), 10 + 200),
        (Call(nbytes=1000, touched=100), 10 + 20),
        (Call("norm", nbytes=1000, width=200), 100),
        (Call("norm", nbytes=1000, width=50), 200),
        (Call("matmul", "tf32", 0, 1000), 20),
        (Call("matmul", "fp32", 0, 1000), 125),
        (Call("matmul", "bf16", 0, 800), 10),
        (Call("matmul", "tf32", 0, 1000).product(8, 12, 4), 20),
        (Call("matmul", "tf32", 0, 1000).product(8, 13, 4), 40),
        (Call("matmul", "bf16", 0, 800).product(8, 12, 16), 40),
        (Call("conv", "tf32", 1000, 1000, outputs=64, depth=100), 120),
        (Call("conv", "tf32", 1000, 1000, outputs=32, depth=50), 180),
        (Call("conv", "tf32", 1000, 1000, last=True), 60),
        (Call("pointwise", "tf32", 1000, 1000, odd=True, waste=2.0), 220),
        (Call("depthwise", "tf32", 0, 1000), 200),
        (Call("attention", "fp32", 0, 1000), 200),
        (Call("attention", "bf16", 0, 800), 10),
        (Call("attention", "bf16", 0, 800).causal(), 5),
        (Call("elementwise", "tf32", 0, 1000), 10 + 20),
    ],
)
def test_by_hand(call: Call, expected: int) -> None:
    assert ns(call) == expected


def test_tf32_is_no_slower_than_fp32_whatever_is_odd() -> None:
    slow = Call("matmul", "tf32", 0, 10**6).product(1, 1, 1)
    assert price(slow, {"matmul": {"a": 0, "b": 1, "f": 0.01}}, 0.8, CARD) == 10**6 / 8
    for name in profiles.names():
        table = prices.table(profiles.get(name))
        for kind in ("matmul", "bmm", "conv", "conv_backward", "pointwise", "rnn"):
            call = Call(kind, "tf32", 10**6, 10**11, odd=True, outputs=3, depth=3)
            assert table.price(call) <= table.price(replace(call, unit="fp32")), (name, kind)


@pytest.mark.parametrize(
    ("image", "weight", "stride", "groups", "transposed", "last", "expected"),
    [
        ((8, 64, 56, 56), (128, 64, 3, 3), (1, 1), 1, False, False, ("conv", 128, 576, False, 1)),
        ((8, 64, 56, 56), (128, 16, 3, 3), (1, 1), 4, False, False, ("conv", 32, 144, False, 1)),
        ((8, 64, 56, 56), (64, 32, 2, 2), (2, 2), 1, True, False, ("conv", 32, 256, False, 1)),
        ((8, 64, 56, 56), (64, 1, 3, 3), (1, 1), 64, False, False, ("depthwise", 0, 0, False, 1)),
        ((8, 64, 16, 16), (128, 64, 1, 1), (1, 1), 1, False, False, ("pointwise", 128, 64, False, 1)),
        ((8, 64, 7, 7), (128, 64, 1, 1), (1, 1), 1, False, False, ("pointwise", 128, 64, True, 128 / 49)),
        ((8, 64, 7, 7), (128, 64, 1, 1), (1, 1), 1, False, True, ("pointwise", 128, 64, False, 1)),
        ((8, 64, 1, 1), (128, 64, 1, 1), (1, 1), 1, False, False, ("pointwise", 128, 64, False, 1)),
        ((8, 64, 7, 7), (128, 64, 1, 1), (2, 2), 1, False, False, ("conv", 128, 64, False, 1)),
    ],
)
def test_what_makes_a_convolution(
    image: Any, weight: Any, stride: Any, groups: int, transposed: bool, last: bool, expected: Any
) -> None:
    call = Call("conv_backward", "tf32", last=last).convolution(image, weight, stride, groups, transposed=transposed)
    kind, *rest = expected
    assert (call.kind, call.outputs, call.depth, call.odd, call.waste) == (f"{kind}_backward", *rest)


def test_a_cards_own_prices_replace_those_of_their_classes_only() -> None:
    card = profiles.get("rtx-3060")
    shared = prices.table(card)
    own = prices.table(card, {"matmul": {"a": 1, "b": 1, "f": 1}, "ieee_fp32_of_peak": 0.9}, "2027-01-02")
    assert own.classes["matmul"] == {"a": 1, "b": 1, "f": 1}
    assert own.classes["conv"] == shared.classes["conv"]
    assert own.ieee_fp32_of_peak == 0.9
    assert "H100" in shared.source
    assert card.title in shared.source
    assert own.source.startswith(
        f"prices by class measured on the {card.title} (2027-01-02); classes not measured there"
    )
    every = prices.table(card, {**shared.classes, "ieee_fp32_of_peak": 0.9})
    assert every.source == f"prices by class measured on the {card.title}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "matmul"),
        ("aten::add", "elementwise"),
        ("aten::empty_like", "free"),
        ("mine::mm", "elementwise"),
        ("convolution", "conv"),
    ],
)
def test_class_of_an_op(name: str, kind: str) -> None:
    assert class_of(name) == kind
