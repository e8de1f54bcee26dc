"""Costs from a table of measurements, instead of prices by class, for the ops in the table."""

import math
from collections import defaultdict
from pathlib import Path

from coopsim.observe import cost_table
from coopsim.observe.costs import OpCostModel
from coopsim.phantom.profiles import Profile
from coopsim.prices import Call
from coopsim.types import Precision


class MeasuredCosts(OpCostModel):
    """Costs of ops on one card by a table (cost_table.read), and by prices of classes for ops that are not in it.

    An op with the same name, FLOPs and bytes costs what the table has, the mean of several rows. An op with the same
    name only costs what the nearest row of that name does, times the ratio of their FLOPs, or of their bytes if it has
    no FLOPs.
    """

    def __init__(self, card: Profile, precision: Precision | None, table: Path) -> None:
        super().__init__(card, precision)
        self._rows = cost_table.read(table)
        self._exact: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        for op, rows in self._rows.items():
            for flops, nbytes, cost in rows:
                self._exact[op, flops, nbytes].append(cost)
        self._table = table.name
        self._calls = {"exactly": 0, "scaled": 0, "not": 0}

    @property
    def source(self) -> str:
        """One line for the trace's header: where costs are from, and how many calls were found in the table."""
        known = ", ".join(f"{n} {how}" for how, n in self._calls.items())
        return f"table {self._table} (calls known to it: {known}); the rest: {super().source}"

    def nanoseconds(self, name: str, call: Call) -> int:
        """Return the cost of a call of the op called `name`, in whole ns."""
        flops, nbytes = call.flops, call.nbytes
        exact = self._exact.get((name, flops, nbytes))
        if exact:
            self._calls["exactly"] += 1
            return round(sum(exact) / len(exact))
        size = flops or nbytes
        namesakes = [(f or b, cost) for f, b, cost in self._rows.get(name, ()) if bool(f) == bool(flops) and (f or b)]
        if not namesakes or not size:
            self._calls["not"] += 1
            return super().nanoseconds(name, call)
        self._calls["scaled"] += 1
        nearest, cost = min(namesakes, key=lambda row: (abs(math.log(row[0] / size)), row))
        return round(cost * size / nearest)
