"""Peaks that others measured on real cards beside what predicts them: experiments/expected/accuracy.csv.

    python -m experiments.published.accuracy --peaks xmem/truth.csv --compiled compiled.json

The first file is xMem's records (experiments/xmem/records.py says what it looks like; MIT licence, (c) 2025 Jiabo Shi),
with the predictions of three published estimators; the phantom GPU's errors beside them are those of
experiments/expected/xmem.csv, which experiments/xmem/compare.py makes. The second is what
experiments/compiled/peaks.py --json prints. Ranks of 8 and 128 are those of experiments/ranks (torchtitan.csv,
gpt_logs.csv).
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError
from experiments.figures.experiment import EXPECTED, HERE

sys.path.insert(0, str(HERE / "xmem"))
import records

MIB = 1 << 20
CARDS = {"rtx-3060": "RTX 3060", "rtx-4060": "RTX 4060", "a100-40gb": "A100"}
ESTIMATORS = {"xmem": "xMem", "dnnmem": "DNNMem", "schedtune": "SchedTune"}
PHANTOM, COMPILED, RANKS = "phantom GPU", "phantom GPU, compiled", "phantom GPU, ranks"


def of_xmem(truth: Path) -> list[dict[str, Any]]:
    """A row per record and estimator."""
    ours = {}
    with (EXPECTED / "xmem.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["error %"]:
                ours[row["model"], row["optimizer"], int(row["batch"]), row["card"]] = float(row["error %"])
    rows = []
    for record in records.peaks(truth):
        mine = ours.get((record.model, record.optimizer, record.batch, record.card))
        if mine is None:  # it ran out of memory, or was not repeated
            continue
        errors = {name: 100 * (record.predictions[key] / record.measured_bytes - 1)
                  for key, name in ESTIMATORS.items() if key in record.predictions}  # fmt: skip
        for estimator, error in ({PHANTOM: mine} | errors).items():
            rows.append(
                {
                    "model": f"{record.model}, {record.optimizer}, batch {record.batch}",
                    "card": CARDS[record.card],
                    "measured_mib": record.measured_bytes / MIB,
                    "estimator": estimator,
                    "error_percent": round(error, 2),
                }
            )
    return rows


def of_compiled(said: Path) -> list[dict[str, Any]]:
    """A row per reading of the GTX 1650."""
    return [
        {
            "model": "{model}, scale {scale}, {backend}, budget {activation_memory_budget}".format_map(row),
            "card": "GTX 1650",
            "measured_mib": row["measured_peak_bytes"] / MIB,
            "estimator": COMPILED,
            "error_percent": row["peak_off_percent"],
        }
        for row in json.loads(said.read_text(encoding="utf-8"))["readings"]
    ]


def of_ranks() -> list[dict[str, Any]]:
    """A row per published run on several H100s: what PyTorch reserved."""
    rows = [
        (
            f"Llama 3.1 8B, {row['ranks']} ranks, {row['setting'] or 'default settings'}",
            1024 * float(row["measured_gib"]),
            float(row["off_percent"]),
        )
        for row in _expected("torchtitan")
    ]
    rows += [
        (row["log"], float(row["measured_reserved_mib"]), float(row["reserved_off_percent"]))
        for row in _expected("gpt_logs")
        if row["run"] == "1"
    ]
    names = "model", "measured_mib", "error_percent"
    return [{"card": "H100", "estimator": RANKS} | dict(zip(names, row, strict=True)) for row in rows]


def _expected(name: str) -> list[dict[str, str]]:
    with (EXPECTED / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peaks", type=Path, required=True)
    parser.add_argument("--compiled", type=Path, required=True)
    args = parser.parse_args()
    try:
        rows = of_xmem(args.peaks) + of_compiled(args.compiled) + of_ranks()
    except (OSError, KeyError, ValueError) as e:
        raise CoopsimError(f"no tables of peaks: {e}") from None
    with replacing(EXPECTED / "accuracy.csv") as part, Path(part).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | {"measured_mib": round(row["measured_mib"], 1)} for row in rows)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"accuracy.py: {e}\n")
        sys.exit(2)
