"""The price of a call on a card: a + bytes ÷ (b · bandwidth) + FLOPs ÷ (f · peak), by class.

`prices.toml` says what the entries of a class mean.
"""

from collections.abc import Mapping
from typing import Protocol

from coopsim.prices.call import Call
from coopsim.prices.classes import ELEMENTWISE, FREE

Class = Mapping[str, float]


class Peaks(Protocol):
    """A card's peak rates, in TFLOP/s (0: no such unit) and 1e9 bytes per second; its title, and their source."""

    @property
    def fp32_tflops(self) -> float: ...
    @property
    def tf32_tflops(self) -> float: ...
    @property
    def bf16_tflops(self) -> float: ...
    @property
    def fp16_tflops(self) -> float: ...
    @property
    def bandwidth_gbs(self) -> float: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...


def price(call: Call, classes: Mapping[str, Class], ieee_of_peak: float, card: Peaks) -> int:
    """Return the price of a call, in whole ns.

    `classes` is a table of prices, `ieee_of_peak` the share of the FP32 peak that products in full float32 reach.
    """
    fixed, per_byte = line(call, classes, card)
    computing = 0.0
    if call.flops and call.kind != FREE:
        of = _class(call, classes)
        of = of if "f" in of or "v" in of else classes["matmul"]
        computing = call.flops * _waste(call, of) / _rate(call, of, ieee_of_peak, card)
    return round(fixed + call.moved * per_byte + computing)


def line(call: Call, classes: Mapping[str, Class], card: Peaks) -> tuple[float, float]:
    """Return the ns that a call takes that moves and computes nothing, and the ns per byte."""
    if call.kind == FREE:
        return 0.0, 0.0
    of = _class(call, classes)
    return of["a"], 1 / (_share(call, of) * card.bandwidth_gbs)


def _class(call: Call, classes: Mapping[str, Class]) -> Class:
    return classes.get(call.kind) or classes[ELEMENTWISE]


def _share(call: Call, of: Class) -> float:
    """Return the share of the bandwidth that a call reaches."""
    share = of.get("b16", of["b"]) if call.half else of["b"]
    if call.last:
        share *= of.get("bl", 1.0)
    if call.odd:
        share *= of.get("bo", 1.0)
    if "c0" in of and call.width:
        share *= min(1.0, call.width / of["c0"])
    return share


def _waste(call: Call, of: Class) -> float:
    """Return the FLOPs that a call does ÷ those that it is credited with."""
    outputs = max(1.0, of["co"] / call.outputs) if "co" in of and call.outputs else 1.0
    depth = max(1.0, of["k"] / call.depth) if "k" in of and call.depth else 1.0
    return call.waste * outputs * depth


def _rate(call: Call, of: Class, ieee_of_peak: float, card: Peaks) -> float:
    """Return the FLOPs per ns that a call does. Those in TF32 are no slower than those in full float32."""
    full = 1000 * ieee_of_peak * card.fp32_tflops
    last = of.get("fl", 1.0) if call.last else 1.0
    if "v" in of and not (call.half and "f16" in of):
        return 1000 * card.fp32_tflops * last * (of.get("v16", of["v"]) if call.half else of["v"])
    peak = {"tf32": card.tf32_tflops, "bf16": card.bf16_tflops, "fp16": card.fp16_tflops}.get(call.unit, 0.0)
    if not peak:
        return full
    share = last * (of["f16"] if call.half and "f16" in of else of["f"])
    if call.odd:
        share *= of.get("odd16" if call.half else "odd", 1.0)
    tensor = 1000 * share * peak
    return max(tensor, full) if call.unit == "tf32" else tensor
