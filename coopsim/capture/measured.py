"""Costs from a table that somebody measured, in place of the roofline where the table knows the op."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from coopsim.observe import cost_table
from coopsim.observe.costs import CostModel
from coopsim.phantom.profiles import Profile


class MeasuredCosts(CostModel):
    """A roofline, but for ops in the table.

    An op with the same name, FLOPs and bytes costs what the table says (the mean, if it has several rows). One
    whose name alone is known costs what its nearest namesake costs, times the ratio of their FLOPs, or of their bytes
    where it has no FLOPs. The rest is roofline.
    """

    def __init__(self, card: Profile, precision: str, table: Path) -> None:
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
        """For the trace's header: what the costs are, and how many calls the table knew."""
        known = ", ".join(f"{n} {how}" for how, n in self._calls.items())
        return f"table {self._table} (calls known to it: {known}); the rest: {super().source}"

    def nanoseconds(self, func: Any, flops: int, nbytes: int, dtype: torch.dtype | None) -> int:
        """The cost of a call, in whole ns."""
        name = str(func)
        exact = self._exact.get((name, flops, nbytes))
        if exact:
            self._calls["exactly"] += 1
            return round(sum(exact) / len(exact))
        size = flops or nbytes
        namesakes = [(f or b, cost) for f, b, cost in self._rows.get(name, ()) if bool(f) == bool(flops) and (f or b)]
        if not namesakes or not size:
            self._calls["not"] += 1
            return super().nanoseconds(func, flops, nbytes, dtype)
        self._calls["scaled"] += 1
        nearest, cost = min(namesakes, key=lambda row: (abs(math.log(row[0] / size)), row))
        return round(cost * size / nearest)
