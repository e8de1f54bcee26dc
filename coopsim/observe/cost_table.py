"""Read a table of measured costs: a trace that was recorded on a GPU, or CSV."""

import csv
from collections import defaultdict
from pathlib import Path

from coopsim import trace
from coopsim.observe.errors import CaptureError

_COLUMNS = ("op", "flops", "bytes_moved", "cost_ns")

#: Rows of one op: (FLOPs, bytes moved, cost in ns).
Rows = list[tuple[int, int, int]]


def read(path: Path) -> dict[str, Rows]:
    """Return the rows of each op name in a table: CSV with the columns op, flops, bytes_moved, cost_ns, or a trace.

    A path that ends in .csv is read as CSV, any other as a trace; that its costs were measured, on a GPU, is not
    checked. Raises CaptureError for a missing file and for bad or empty CSV, TraceError for a bad trace.
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
