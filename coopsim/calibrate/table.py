"""Fit the prices of a card to the times that were measured on it."""

from collections.abc import Iterable, Mapping
from typing import Any

from coopsim import prices
from coopsim.calibrate.fit_prices import fit, ieee_of_peak
from coopsim.calibrate.grid_calls import timed
from coopsim.phantom import Profile
from coopsim.prices import IEEE


def of(rows: Iterable[Mapping[str, Any]], card: Profile) -> dict[str, Any]:
    """Return the section `prices` of a card file, for rows of measure_prices.py: of the classes that were measured.

    The fit starts from the prices that all cards share, and stays near them where the rows leave it open.
    """
    calls = timed([{name: str(value) for name, value in row.items()} for row in rows])
    shared = prices.table(card)
    ieee = ieee_of_peak(calls, card) or shared.ieee_fp32_of_peak
    kinds = {one.call.kind for one in calls}
    fitted = fit(calls, card, {kind: of for kind, of in shared.classes.items() if kind in kinds}, ieee)
    return {**fitted, IEEE: ieee}
