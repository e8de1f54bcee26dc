"""Costs from a table that somebody measured, in place of the roofline where the table knows the op."""

import csv
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from coopsim import trace
from coopsim.capture.costs import CostModel
from coopsim.capture.errors import CaptureError
from coopsim.phantom.profiles import Profile

_COLUMNS = ("op", "flops", "bytes_moved", "cost_ns")

#: Rows of one op: flops, bytes_moved, cost_ns.
Rows = list[tuple[int, int, int]]


class MeasuredCosts(CostModel):
    """A roofline, but for ops in the table.

    An op with the same name, FLOPs and bytes costs what the table says (the mean, if it says more than one thing). One
    whose name alone is known costs what its nearest namesake costs, times the ratio of their FLOPs, or of their bytes
    where it has no FLOPs. The rest is roofline.
    """

    def __init__(self, card: Profile, precision: str, table: Path) -> None:
        super().__init__(card, precision)
        self._rows = read(table)
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


def read(path: Path) -> dict[str, Rows]:
    """The table: a trace (one that was recorded on a GPU), or CSV with the columns op, flops, bytes_moved, cost_ns.

    Raises CaptureError if it is neither, TraceError if it is a damaged trace.
    """
    found: dict[str, Rows] = defaultdict(list)
    if not path.is_file():
        raise CaptureError(f"{path}: no such file")
    if path.suffix != ".csv":
        table = trace.load(path)
        for name, *row in zip(table.name, table.flops, table.bytes_moved, table.cost_ns, strict=True):
            flops, nbytes, cost = map(int, row)
            found[name].append((flops, nbytes, cost))
        return found
    with path.open(encoding="utf-8", newline="", errors="replace") as file:
        rows = csv.DictReader(file)
        if not set(_COLUMNS) <= set(rows.fieldnames or ()):
            raise CaptureError(f"{path} lacks one of the columns {', '.join(_COLUMNS)}")
        for line, cells in enumerate(rows, 2):
            try:
                flops, nbytes, cost = (int(cells[column]) for column in _COLUMNS[1:])
            except (TypeError, ValueError):
                raise CaptureError(f"{path}: line {line} does not hold whole numbers") from None
            if min(flops, nbytes, cost) < 0:
                raise CaptureError(f"{path}: line {line} has a negative number")
            found[cells["op"]].append((flops, nbytes, cost))
    if not found:
        raise CaptureError(f"{path} has no rows")
    return found
