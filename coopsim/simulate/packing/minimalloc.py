"""Reads and writes MiniMalloc's CSV files: one row per item, with offsets in a last column.

Columns by name, in any order: `id` (or `buffer_id`, `buffer`), `lower` (or `start`, `begin`), `upper` (or `end`),
`size`, and maybe `alignment`. As in MiniMalloc, `upper` is the first moment after the item's life, `end` its last one.
A column `gaps` must be empty; `offset` and all others are not read, and are written again as they were.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coopsim.base.files import replacing
from coopsim.simulate.packing.items import Ints, Items, PlanError

_NAMES = {
    "id": ("id", "buffer_id", "buffer"),
    "lower": ("lower", "start", "begin"),
    "upper": ("upper", "end"),
    "size": ("size",),
    "alignment": ("alignment",),
}
_OPTIONAL = ("alignment",)
_LARGEST = 1 << 62


@dataclass(frozen=True)
class ItemFile:
    """The items of a file, with its header and rows as they were read, to write them again with offsets."""

    items: Items
    header: list[str]
    rows: list[list[str]]

    def text(self, offset: Ints) -> str:
        """The file with the items' offsets, in bytes, in a last column `offset`."""
        kept = [i for i, name in enumerate(self.header) if name != "offset"]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*(self.header[i] for i in kept), "offset"])
        for row, at in zip(self.rows, offset.tolist(), strict=True):
            writer.writerow([*(row[i] for i in kept), at])
        return out.getvalue()


def from_items(items: Items) -> ItemFile:
    """A table for items that come from no file: id, lower, upper, size, and alignment if one is above 1."""
    columns = {"id": np.arange(len(items)), "lower": items.start, "upper": items.end, "size": items.bytes}
    if (items.alignment > 1).any():
        columns["alignment"] = items.alignment
    rows = [[str(value) for value in row] for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
    return ItemFile(items, list(columns), rows)


def read(path: str | Path) -> ItemFile:
    """Read a CSV file. Raises PlanError, with the number of the line, if it is invalid."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = [(n, row) for n, row in _rows(file.read()) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as e:
        raise PlanError(f"{path}: not a CSV file ({e})") from None
    if not lines:
        raise PlanError(f"{path}: empty; the first line must name the columns (id,lower,upper,size)")
    header = [name.strip().lower() for name in lines[0][1]]
    column = _columns(path, header)
    values: dict[str, list[int]] = {key: [] for key in column if key != "id"}
    for n, row in lines[1:]:
        if len(row) != len(header):
            raise PlanError(f"{path}: line {n} has {len(row)} fields, the first line {len(header)}")
        for key, found in values.items():
            found.append(_number(row[column[key]], header[column[key]], f"{path}: line {n}"))
        if "gaps" in header and row[header.index("gaps")].strip():
            raise PlanError(f"{path}: line {n} has a gap in its lifetime; gaps cannot be planned")
    if len(lines) == 1:
        raise PlanError(f"{path}: no rows")
    inclusive = header[column["upper"]] == "end"
    items = Items(
        bytes=np.array(values["size"], np.int64),
        start=np.array(values["lower"], np.int64),
        end=np.array(values["upper"], np.int64) + inclusive,
        alignment=np.array(values.get("alignment", [1] * (len(lines) - 1)), np.int64),
    )
    items.check([f"{path}: line {n}" for n, _ in lines[1:]])
    return ItemFile(items, header, [row for _, row in lines[1:]])


def write(text: str, path: str | Path) -> None:
    """Write a file, whole or not at all. Raises CoopsimError if the path cannot be written."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="")


def _rows(text: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    return [(reader.line_num, row) for row in reader]


def _columns(path: str | Path, header: Sequence[str]) -> dict[str, int]:
    """The position of each column that is read, by our name for it."""
    found: dict[str, int] = {}
    for key, names in _NAMES.items():
        here = [i for i, name in enumerate(header) if name in names]
        if len(here) > 1:
            raise PlanError(f"{path}: two columns for {key}: {header[here[0]]} and {header[here[1]]}")
        if here:
            found[key] = here[0]
        elif key not in _OPTIONAL:
            raise PlanError(f"{path}: no column {' or '.join(names)} in the first line")
    return found


def _number(text: str, name: str, where: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise PlanError(f"{where}: {name} is not a whole number ({text.strip()!r})") from None
    if abs(value) > _LARGEST:
        raise PlanError(f"{where}: {name} is too large ({text.strip()})")
    return value
