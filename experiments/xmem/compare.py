"""Compare the phantom GPU's peaks with peaks that others measured on real cards (docs/accuracy.md).

Each record is run by train.py, an ordinary training script, on the phantom GPU as the record's card. Nothing is
fitted. Start it with the Python whose torch the records were made with:

    python experiments/xmem/compare.py --peaks truth.csv --capped capped_runs.json

prints a table; --json for machines, --csv FILE for the rows. --fit also looks for the smallest card that trains, which
takes longer. A journal keeps finished runs, so it can be stopped.
"""

import argparse
import csv
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import models
import records
import report
import runs

from coopsim.base.progress import progress
from coopsim.base.text import table
from coopsim.base.types import CoopsimError

PINNED = {"torch": "2.6.0", "transformers": "4.51.3", "torchvision": "0.21.0"}


def write(path: Path, text: str) -> None:
    """Write to a temporary file beside `path`, then rename: never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o644)
    os.replace(name, path)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    peaks = records.peaks(args.peaks)
    capped = records.capped(args.capped, {r.card for r in peaks}) if args.capped else []
    for record in peaks + capped:  # before anything runs
        try:
            models.find(record.model)
        except ValueError as error:
            raise CoopsimError(str(error)) from None
    journal = runs.Journal(args.journal, fit=args.fit)
    with progress("runs", len(set(peaks + capped))) as tick:
        results = runs.run(peaks + capped, journal, args.jobs, tick)
    found = [(r, results[r]) for r in peaks]
    caps = report.cap_rows([(r, results[r]) for r in capped])
    return {
        "versions": runs.versions(),
        "peaks": report.peak_rows(found),
        "errors": [e.row() for e in report.errors(found)],
        "capped": caps,
        "judged": report.judged(caps),
    }


def rows_of(found: dict[str, Any]) -> str:
    """CSV of all runs, without the measured peaks, which are others' (their files have them)."""
    rows = [row | {"cap": None} for row in found["peaks"]] + found["capped"]
    columns = [c for c in dict.fromkeys(key for row in rows for key in row) if c != "measured"]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def text(found: dict[str, Any]) -> str:
    """The comparison for people."""
    used = found["versions"]
    parts = []
    if any(used[p].partition("+")[0] != v for p, v in PINNED.items()):
        parts.append(f"note: the records in docs/accuracy.md are for {PINNED}, this is {used}")
    for name in ("peaks", "errors", "capped"):
        rows = found[name]
        if rows:
            parts.append(table(list(rows[0]), [["" if v is None else v for v in row.values()] for row in rows]))
    parts += [", ".join(f"{k}: {v}" for k, v in found["judged"].items())]
    return "\n\n".join(parts) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peaks", type=Path, required=True, help="CSV of measured peaks (records.py has its columns)")
    parser.add_argument("--capped", type=Path, help="JSON of runs under a cap")
    parser.add_argument("--journal", type=Path, default=Path("out/xmem.jsonl"))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--fit", action="store_true", help="look for the smallest card that trains, too")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows, without what was measured")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if args.jobs < 1:
        parser.error("--jobs must be positive")
    return args


def main() -> int:
    args = arguments()
    try:
        found = compare(args)
        if args.csv:
            write(args.csv, rows_of(found))
    except CoopsimError as error:
        sys.stderr.write(f"compare.py: {error}\n")
        return 2
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if args.json else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
