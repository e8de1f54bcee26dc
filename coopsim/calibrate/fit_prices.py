"""Fit prices by class (prices.py) to timed calls of one card.

A class has few entries, each within bounds; errors are relative, and outliers count little. What the data leave open
stays near a table given as the start.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coopsim.calibrate.grid_calls import Timed, timed
from coopsim.cards import prices
from coopsim.cards.prices import IEEE, Call, CardPeaks
from coopsim.phantom import Profile

Array = np.ndarray
Table = dict[str, dict[str, float]]

#: The least and greatest value of an entry.
_BOUNDS = {
    "a": (1000.0, 50000.0),
    "b": (0.05, 2.0),
    "b16": (0.05, 1.2),
    "bl": (0.3, 3.0),
    "bo": (0.3, 1.0),
    "c0": (1.0, 2000.0),
    "f": (0.01, 1.0),
    "f16": (0.01, 1.0),
    "fl": (0.3, 3.0),
    "odd": (0.05, 1.0),
    "odd16": (0.05, 1.0),
    "v": (0.001, 1.0),
    "v16": (0.001, 1.0),
    "co": (1.0, 256.0),
    "k": (1.0, 1024.0),
}
_OUTLIER = 0.25  #: a relative error from which the loss grows no faster than it
_PRIOR = 0.3  #: how many calls the start weighs
_LARGE = 10_000_000_000  #: FLOPs of a product that is bound by computing
_SURE_NS = 10_000.0  #: of an ideal time; what else a host does weighs more in shorter calls of a grid


def fit(
    timed: Sequence[Timed],
    card: CardPeaks,
    start: Mapping[str, Mapping[str, float]],
    ieee: float,
    steady: frozenset[str] = frozenset(),
) -> Table:
    """Return the table of the classes in `start`, fitted to the timed calls of each; without calls, as it is there.

    Each class gets the entries that it has in `start`. `ieee` is the share of the FP32 peak that products in full
    float32 reach, than which those in TF32 are no slower. `steady` names the sources (Timed.where) whose times are
    medians behind a long wait, on which a host has no influence.
    """
    table: Table = {}
    for kind, entries in start.items():
        own = [one for one in timed if one.call.kind == kind and not _full(one.call)]
        table[kind] = _fit(own, _Columns(own, card, ieee), dict(entries), steady) if own else dict(entries)
    return table


def _full(call: Call) -> bool:
    """Return whether it is a product in full float32, which ieee_of_peak is about."""
    return call.unit == "fp32" and call.kind in ("matmul", "bmm")


def ieee_of_peak(timed: Sequence[Timed], card: CardPeaks) -> float | None:
    """Return the share of the FP32 peak that large products in full float32 reach; None if none was timed."""
    shares = [
        one.call.flops / one.ns / (1000 * card.fp32_tflops)
        for one in timed
        if _full(one.call) and one.call.flops > _LARGE
    ]
    return float(f"{min(1.0, np.median(shares)):.3g}") if shares else None


def predict(timed: Sequence[Timed], table: Mapping[str, Mapping[str, float]], card: CardPeaks, ieee: float) -> Array:
    """Return the price of each call in ns, not rounded. A class that is not in the table costs nan."""
    found = np.full(len(timed), math.nan)
    for kind in {one.call.kind for one in timed} & set(table):
        rows = [i for i, one in enumerate(timed) if one.call.kind == kind]
        found[rows] = _price(_Columns([timed[i] for i in rows], card, ieee), table[kind])
    return found


class _Columns:
    """The calls of a class as arrays."""

    def __init__(self, timed: Sequence[Timed], card: CardPeaks, ieee: float) -> None:
        def of(name: str) -> Array:
            return np.array([getattr(one.call, name) for one in timed], float)

        peaks = {"tf32": card.tf32_tflops, "bf16": card.bf16_tflops, "fp16": card.fp16_tflops}
        self.ns = np.array([one.ns for one in timed])
        self.half, self.last, self.odd = of("half") > 0, of("last") > 0, of("odd") > 0
        self.bytes_ns = of("moved") / card.bandwidth_gbs
        self.flops, self.waste = of("flops"), of("waste")
        self.peak = 1000 * np.array([peaks.get(one.call.unit, 0) or card.fp32_tflops for one in timed])
        self.vector = 1000 * card.fp32_tflops
        self.least = np.where([one.call.unit == "tf32" for one in timed], ieee * self.vector, 0)
        self.width, self.outputs, self.depth = (np.maximum(of(name), 1e-9) for name in ("width", "outputs", "depth"))


def _price(of: _Columns, p: Mapping[str, float]) -> Array:
    """price.price for arrays, of calls whose units the card has."""
    share = np.where(of.half, p.get("b16", p["b"]), p["b"])
    share = share * np.where(of.last, p.get("bl", 1), 1) * np.where(of.odd, p.get("bo", 1), 1)
    if "c0" in p:
        share = share * np.minimum(1, np.where(of.width > 1e-9, of.width, np.inf) / p["c0"])
    moving = of.bytes_ns / share
    if "f" not in p and "v" not in p:
        return np.asarray(p["a"] + moving)
    last = np.where(of.last, p.get("fl", 1), 1)
    odd = np.where(of.odd, np.where(of.half, p.get("odd16", 1), p.get("odd", 1)), 1)
    vector = of.vector * np.where(of.half, p.get("v16", p.get("v", 0)), p.get("v", 0))
    tensor = np.maximum(of.peak * np.where(of.half, p.get("f16", p.get("f", 0)), p.get("f", 0)) * last * odd, of.least)
    by_vector = np.where(of.half, "f16" not in p, True) if "v" in p else np.zeros(len(of.ns), bool)
    rate = np.where(by_vector, vector * last, tensor)
    waste = of.waste
    if "co" in p:
        waste = waste * np.maximum(1, p["co"] / of.outputs)
    if "k" in p:
        waste = waste * np.maximum(1, p["k"] / of.depth)
    return np.asarray(p["a"] + moving + of.flops * waste / rate)


def _weights(timed: Sequence[Timed], of: _Columns, steady: frozenset[str]) -> Array:
    """Weigh calls by their size, and short ones of a grid next to nothing."""
    ideal = of.bytes_ns + of.flops / of.peak
    sure = np.array([one.where in steady for one in timed])
    often = np.minimum([one.count for one in timed], 3)
    trust = np.where(sure, often, (ideal / (ideal + _SURE_NS)) ** 2)
    return np.asarray(trust * (np.maximum(ideal, 100) / 20_000) ** 0.4)


def _fit(timed: Sequence[Timed], of: _Columns, start: dict[str, float], steady: frozenset[str]) -> dict[str, float]:
    """Levenberg and Marquardt's method on the logarithms of the entries, with Huber's loss."""
    names = list(start)
    low, high = (np.log([_BOUNDS[name][side] for name in names]) for side in (0, 1))
    first = np.clip(np.log([start[name] for name in names]), low, high)
    weights = np.concatenate([_weights(timed, of, steady), np.full(len(names), _PRIOR)])

    def errors(z: Array) -> Array:
        price = _price(of, dict(zip(names, np.exp(z), strict=True)))
        return np.concatenate([np.log(price / of.ns), z - first])

    def loss(e: Array) -> float:
        size = np.abs(e)
        return float(np.sum(weights * np.where(size < _OUTLIER, e * e / 2, _OUTLIER * (size - _OUTLIER / 2))))

    z, damping = first, 1e-2
    e = errors(z)
    best = loss(e)
    for _ in range(60):
        slopes = np.stack([(errors(z + 1e-4 * unit) - e) / 1e-4 for unit in np.eye(len(z))], axis=1)
        pull = weights * np.minimum(1, _OUTLIER / np.maximum(np.abs(e), 1e-12))
        curvature, slope = slopes.T @ (pull[:, None] * slopes), slopes.T @ (pull * e)
        gained = 0.0
        for _ in range(8):
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature) + 1e-9), -slope)
            further = np.clip(z + np.clip(step, -1, 1), low, high)
            now = errors(further)
            if loss(now) < best:
                gained, z, e, best = best - loss(now), further, now, loss(now)
                damping = max(damping / 5, 1e-9)
                break
            damping *= 5
        if gained <= 1e-6 * best:
            break
    return {name: float(f"{value:.3g}") for name, value in zip(names, np.exp(z), strict=True)}


def prices_of(rows: Iterable[Mapping[str, Any]], card: Profile) -> dict[str, Any]:
    """Return the section `prices` of a card file, for rows of measure_prices.py: of the classes that were measured.

    The fit starts from the prices that all cards share, and stays near them where the rows leave it open.
    """
    calls = timed([{name: str(value) for name, value in row.items()} for row in rows])
    shared = prices.table(card)
    ieee = ieee_of_peak(calls, card) or shared.ieee_fp32_of_peak
    kinds = {one.call.kind for one in calls}
    fitted = fit(calls, card, {kind: of for kind, of in shared.classes.items() if kind in kinds}, ieee)
    return {**fitted, IEEE: ieee}
