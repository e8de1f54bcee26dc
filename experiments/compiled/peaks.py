"""Compare peaks of compiled training passes on the phantom GPU with readings of a real card (docs/accuracy.md).

    python experiments/compiled/peaks.py truth.csv

Columns of the file: model, scale, backend, activation_memory_budget, resident_bytes, peak_allocated_bytes. Each reading
is taken again by reading.py, an ordinary training script, under `coopsim phantom run`. Nothing is fitted.
"""

import argparse
import csv
import importlib.metadata
import json
import statistics
import subprocess
import sys
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from coopsim.base import text
from coopsim.base.types import CoopsimError

#: The versions that docs/accuracy.md is of. transformers before 5.15 hands BERT's attention a mask.
PINNED = {"torch": "2.14.1", "transformers": "5.14.1", "triton": "3.8.0"}
CARD = "gtx-1650"
#: Budgets that were read one after the other in one process, as the readings' README has them. What one leaves in the
#: allocator's cache changes what counts as allocated in the next: blocks are split or handed out whole.
SERIES = (
    ("llama", 4, "aot_eager", (0.05, 0.1, 0.15, 0.2, 0.3)),
    ("llama", 6, "aot_eager", (0.05, 0.1, 0.15, 0.2, 0.3)),
    ("llama", 8, "aot_eager", (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)),
    ("llama", 8, "aot_eager", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    ("llama", 8, "inductor", (0.05, 0.1, 0.15, 0.2, 0.3)),
    ("bert", 8, "aot_eager", (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)),
    ("bert", 8, "aot_eager", (0.7, 0.8, 0.9)),
)


@dataclass(frozen=True)
class Reading:
    """One row of the file."""

    model: str
    scale: int
    backend: str
    budget: float
    resident_bytes: int
    peak_bytes: int

    @property
    def series(self) -> tuple[float, ...]:
        """What was read in its process, until its own turn."""
        for *key, budgets in SERIES:
            if key == [self.model, self.scale, self.backend] and self.budget in budgets:
                return budgets[: budgets.index(self.budget) + 1]
        return (self.budget,)


def readings(file: Path) -> list[Reading]:
    """The rows of a file. CoopsimError, one line, if it is none."""
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            return [
                Reading(
                    row["model"],
                    int(row["scale"]),
                    row["backend"],
                    float(row["activation_memory_budget"]),
                    int(row["resident_bytes"]),
                    int(row["peak_allocated_bytes"]),
                )
                for row in csv.DictReader(lines)
            ]
    except (OSError, UnicodeDecodeError) as error:
        raise CoopsimError(f"{file}: cannot be read: {error}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise CoopsimError(f"{file}: no table of readings: {error}") from None


def take(wanted: list[Reading]) -> dict[Reading, dict[str, Any]]:
    """Take each again, those of one process in one process."""
    found: dict[Reading, dict[str, Any]] = {}
    for reading in sorted(wanted, key=lambda r: -len(r.series)):
        if reading in found:
            continue
        said = _child(reading)
        for other in wanted:
            same = (other.model, other.scale, other.backend) == (reading.model, reading.scale, reading.backend)
            if same and other.series == reading.series[: len(other.series)]:
                found.setdefault(other, said[other.budget])
    return found


def _child(reading: Reading) -> dict[float, dict[str, Any]]:
    words = list(map(str, (reading.model, reading.scale, reading.backend, *reading.series)))
    script = str(Path(__file__).with_name("reading.py"))
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", "--", "python", script]
    print(*words, file=sys.stderr, flush=True)
    run = subprocess.run([*command, *words], check=False, capture_output=True, text=True)  # noqa: S603
    lines = run.stderr.splitlines()  # with --json, what the script prints goes there
    if run.returncode:
        raise CoopsimError(f"reading.py {' '.join(words)} failed: {lines[-1] if lines else run.returncode}")
    said = [json.loads(line) for line in lines if line.startswith('{"activation_memory_budget"')]
    return {row["activation_memory_budget"]: row for row in said}


def rows(found: dict[Reading, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per reading: what was measured, and how far off the phantom is."""
    table = []
    for reading, said in sorted(found.items(), key=lambda item: astuple(item[0])):
        peak = statistics.mode(said["peak_allocated_bytes"])
        table.append(
            {
                "model": reading.model,
                "scale": reading.scale,
                "backend": reading.backend,
                "activation_memory_budget": reading.budget,
                "resident_off_bytes": said["resident_bytes"] - reading.resident_bytes,
                "measured_peak_bytes": reading.peak_bytes,
                "peak_bytes": peak,
                "peak_off_bytes": peak - reading.peak_bytes,
                "peak_off_percent": round(100 * (peak / reading.peak_bytes - 1), 3),
            }
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readings", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    try:
        table = rows(take(readings(args.readings)))
    except CoopsimError as error:
        sys.stderr.write(f"peaks.py: {error}\n")
        return 2
    versions = {name: importlib.metadata.version(name) for name in PINNED}
    if args.json:
        print(json.dumps({"versions": versions, "readings": table}, indent=1))
        return 0
    if versions != PINNED:
        print(f"note: docs/accuracy.md is of {PINNED}, this is {versions}")
    print(text.table(list(table[0]), [list(row.values()) for row in table]) if table else "no readings")
    equal = sum(row["peak_off_bytes"] == 0 for row in table)
    print(f"\n{equal} of {len(table)} peaks are equal to the byte")
    return 0


if __name__ == "__main__":
    sys.exit(main())
