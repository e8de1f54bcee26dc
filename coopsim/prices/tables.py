"""The table of prices of a card: what was measured on it, and what other cards share where nothing was."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from coopsim.prices.call import Call
from coopsim.prices.price import Class, Peaks, line, price

IEEE = "ieee_fp32_of_peak"
Measured = Mapping[str, Any]  #: {class: {entry: value}, "ieee_fp32_of_peak": share}


@dataclass(frozen=True)
class Table:
    """Prices on one card. `source` is a line for headers: what they rest on."""

    classes: Mapping[str, Class]
    ieee_fp32_of_peak: float
    card: Peaks
    source: str

    def price(self, call: Call) -> int:
        """Return the price of a call, in whole ns."""
        return price(call, self.classes, self.ieee_fp32_of_peak, self.card)

    def by_bytes(self, call: Call) -> tuple[float, float]:
        """Return the ns of a call without FLOPs that moves nothing, and the ns per byte."""
        return line(call, self.classes, self.card)


def table(card: Peaks, measured: Measured | None = None, measured_by: str = "") -> Table:
    """Return the prices on a card.

    `measured` is what has been measured on it, a class or more, in the form of prices.toml; `measured_by` says how and
    when, for the table's source. Other classes are those that prices.toml shares between all cards.
    """
    shipped = _shipped()
    own = {kind: entries for kind, entries in (measured or {}).items() if kind != IEEE}
    on = f"an {shipped['card']} ({shipped['date']})"
    source = f"prices by class measured on {on}, as shares of the peaks of the {card.title}: {_peaks(card)}"
    if own:
        rest = "" if own.keys() >= shipped["classes"].keys() else f"; classes not measured there: {source}"
        source = f"prices by class measured on the {card.title}{f' ({measured_by})' if measured_by else ''}{rest}"
    ieee = (measured or {}).get(IEEE, shipped[IEEE])
    return Table(shipped["classes"] | own, float(ieee), card, source)


def _peaks(card: Peaks) -> str:
    units = {name.upper(): getattr(card, f"{name}_tflops") for name in ("tf32", "fp32", "bf16", "fp16")}
    rates = ", ".join(f"{name} {rate:g}" for name, rate in units.items() if rate)
    return f"{rates} TFLOP/s, {card.bandwidth_gbs:g} GB/s; peaks from {card.source}"


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(resources.files("coopsim.prices").joinpath("prices.toml").read_text(encoding="utf-8"))
