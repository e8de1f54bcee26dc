"""Tables of an experiment that takes long: written after each row, so that what ran is there if a later run fails."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from coopsim.base.files import replacing


def read(file: Path) -> list[dict[str, str]]:
    """The rows; none if there is no such file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def write(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Whole or not at all. Columns are the first row's."""
    with replacing(file) as part, part.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
