"""Search for remedies of the scripts in cases.toml; write experiments/expected/fit/, as the README beside says.

    python experiments/fit/run.py [NAME …]

Each script takes some minutes: a search, then all of its remedies applied, with all of the card's memory. Results that
are there already are kept (remove experiments/expected/fit/NAME.csv).
"""

import csv
import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

from coopsim import CoopsimError
from coopsim.base import budget, files
from coopsim.base.progress import note
from coopsim.fitting import Search, apply
from coopsim.run import Script

HERE = Path(__file__).parent
RESULTS = HERE.parent / "expected" / "fit"
CARD = "rtx-3060"
COLUMNS = (
    *("needs_bytes", "memory_bytes", "runs", "kind", "text", "peak_device_bytes", "time_ratio"),
    *("same_numbers", "verified", "applied", "patch", "cost_model"),
)


def main(names: list[str]) -> None:
    cases = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    unknown = [name for name in names if name not in cases]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(cases)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    os.chdir(HERE / "scripts")
    for name in names or cases:
        target = RESULTS / f"{name}.csv"
        if not target.exists():
            note(f"--- {name}")
            try:
                rows = _search(cases[name])
            except CoopsimError as e:
                note(f"{name}: {e}")
                continue
            with files.replacing(target) as part, part.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


def _search(case: dict[str, str]) -> list[dict[str, object]]:
    nbytes = budget.parse(case["memory"], None)
    script = Script(tuple(case["command"].split()), card=CARD, memory_bytes=nbytes)
    found = Search(script, say=note).run()
    shared = {"needs_bytes": found.needs_bytes, "memory_bytes": found.memory_bytes, "runs": found.runs}
    return [
        shared
        | {key: value for key, value in remedy.row().items() if key in COLUMNS}
        | {"time_ratio": f"{remedy.time_ratio:.4f}", "patch": "yes" if remedy.patched else "no"}
        | {"applied": apply(replace(script, quiet=True), remedy).outcome, "cost_model": "prices by class"}
        for remedy in found.remedies
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
