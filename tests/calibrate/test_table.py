"""The ops that are timed suffice to find the prices of a card."""

import itertools
from dataclasses import replace

import numpy as np

from coopsim.calibrate import shapes
from coopsim.calibrate.fit_prices import predict, prices_of
from coopsim.calibrate.grid_calls import EVENTS_US, timed
from coopsim.cards import prices, profiles
from coopsim.cards.prices import IEEE


def test_prices_are_found_again() -> None:
    """Of a card whose kernels take longer to start, and reach other shares of its peaks, than those we know."""
    card = profiles.get("rtx-3090")
    changed = {"a": 2.0, "b": 0.7, "b16": 0.8, "f": 0.6, "f16": 0.9}
    truth = {
        kind: {name: value * changed.get(name, 1.0) for name, value in entries.items()}
        for kind, entries in prices.table(card).classes.items()
    }
    rows = [case.row() | {"us": 0.0} for case in itertools.chain(shapes.ops(), shapes.convolutions())]
    priced = []
    for row in rows:
        calls = timed([{**row, "us": "10"}])
        if calls:
            call = calls[0].call
            ns = replace(prices.table(card), classes=truth, ieee_fp32_of_peak=0.6).price(call)
            priced.append(row | {"us": ns / 1000 + EVENTS_US})
    found = prices_of(priced, card)
    assert abs(found[IEEE] - 0.6) < 0.06
    every = timed([{name: str(value) for name, value in row.items()} for row in priced])
    assert len({one.call.kind for one in every}) >= 20
    own = {kind: entries for kind, entries in found.items() if kind != IEEE}
    off = np.abs(predict(every, own, card, found[IEEE]) / np.array([one.ns for one in every]) - 1)
    before = np.abs(predict(every, prices.table(card).classes, card, 0.75) / np.array([one.ns for one in every]) - 1)
    assert np.median(off) < 0.05 < np.median(before)
    assert np.mean(off < 0.2) > 0.9
