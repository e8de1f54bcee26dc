"""Readings of real cards that others published, beside what coopsim says: first table and figure of docs/accuracy.md.

    python experiments/published/compare.py --published DIR --snapshots DIR

DIR of the first: tables of readings, each row with its source, what was measured and what `coopsim phantom run` said of
the program rebuilt from its published settings (readings.py and batches.py have the columns). Of the second: memory
snapshots of real cards, *.pickle or *.pickle.gz; these are replayed here. Neither is part of this repository, as most
of their sources have no licence; experiments/expected/published.csv has our own figures: errors, and what was called.
It ends with what was skipped.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import batches
import histories
import page
import readings

from coopsim.base.files import replacing
from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from experiments.figures.experiment import EXPECTED

COLUMNS = ("kind", "source", "case", "error_percent", "right", "room_percent", "requests", "placed")


def table(published: Path, snapshots: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the columns above, and what was skipped. CoopsimError for files that are not as these docstrings say."""
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for kind in readings.KINDS:
        for r in readings.read(published, kind):
            row = {"kind": "reading", "source": r.source, "case": r.case, "right": r.equal}
            rows.append(row | {"error_percent": round(r.error, 4)})
    for b in batches.read(published):
        room = "" if b.room != b.room else round(b.room, 2)
        source = "trains" if b.trained else "does not"
        rows.append(
            {"kind": "batch", "source": source, "case": b.case, "right": b.trained == b.trains, "room_percent": room}
        )
    for h in histories.read(snapshots):
        if h.skipped:
            skipped.append(h.skipped)
            continue
        right = h.agreeing == h.requests
        row = {"kind": "snapshot", "source": h.written_by, "case": h.name, "right": right}
        rows.append(row | {"requests": h.requests, "placed": h.placed})
    return rows, [*skipped, *_absent(published, {row["case"] for row in rows if row["kind"] == "snapshot"})]


def _absent(published: Path, there: set[str]) -> list[str]:
    """The snapshots of the list that are not in the folder."""
    found = []
    for row in readings.rows(published / "snapshots.csv"):
        repository, name = row["repository"].rpartition("+")[2], Path(row["file"]).stem
        if f"{repository}__{name}" not in there:
            found.append(f"{row['repository']} {row['file']}: not in the folder, or without a history")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, required=True, metavar="DIR")
    parser.add_argument("--snapshots", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    rows, skipped = table(args.published, args.snapshots)
    with replacing(EXPECTED / "published.csv") as part, Path(part).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page.write()
    for line in page.misses():
        note(f"missed: {line}")
    for line in skipped:
        note(f"skipped: {line}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"compare.py: {e}\n")
        sys.exit(2)
