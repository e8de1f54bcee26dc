"""Predict the memory of peft's measured fine-tuning runs: table and figure of docs/fine-tuning.md.

    python experiments/peft/run.py [--data DIR] [ROW …]

DIR: truth.csv and configs/ as in experiments/peft/data, which is the default. Each row is one run of language.py or
images.py under `coopsim phantom run`, some 10 s of one core. Those that are done are kept in out/peft: an interrupted
run goes on. A row whose method the installed peft does not have is skipped, and named. ROW: only these, without
changing table or figure. Needs peft and diffusers beside coopsim, in the versions of requirements.txt:

    python -m pip install -r experiments/peft/requirements.txt
"""

import argparse
import csv
import hashlib
import importlib.metadata
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import page
import pandas as pd
import rows
from rows import Row

from coopsim.base.files import replacing
from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from experiments.figures.experiment import EXPECTED, ROOT

HERE = Path(__file__).parent
RESULTS = ROOT / "out" / "peft"
SCRIPTS = {"MetaMathQA": ("language.py", "lengths.py", "training.py"), "image-gen": ("images.py", "training.py")}
PACKAGES = ("torch", "transformers", "peft", "diffusers")
SECONDS = 900  # after which a row is given up
COLUMNS = (
    *("task", "experiment", "measured_bytes", "predicted_bytes", "error_percent"),
    *("trainable", "predicted_trainable"),
)


def predict(row: Row) -> dict[str, Any]:
    """What the phantom GPU says of a row. CoopsimError if the script fails."""
    path = RESULTS / row.task / f"{row.experiment.replace('/', '--')}.json"
    inputs = _inputs(row)
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["inputs"] == inputs:
            return kept
    path.parent.mkdir(parents=True, exist_ok=True)
    result = path.with_suffix(".part")
    began = time.monotonic()
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", rows.CARD, "--masks", "all", "--"]
    command += [sys.executable, str(HERE / SCRIPTS[row.task][0]), str(row.folder), str(result)]
    if row.task == "image-gen":
        command.append(row.created)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)  # noqa: S603 our own script
    except subprocess.TimeoutExpired:
        raise CoopsimError(f"not done after {SECONDS} s") from None
    if done.returncode:
        raise CoopsimError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found = json.loads(result.read_text(encoding="utf-8"))
    found |= {"inputs": inputs, "seconds": round(time.monotonic() - began, 1)}
    with replacing(path) as part:
        Path(part).write_text(json.dumps(found), encoding="utf-8")
    result.unlink()
    return found


def _inputs(row: Row) -> str:
    """A digest of all that the result depends on."""
    files = [*(HERE / name for name in SCRIPTS[row.task]), *sorted(row.folder.glob("*.json"))]
    versions = " ".join(f"{p} {importlib.metadata.version(p)}" for p in (*PACKAGES, "coopsim"))
    return hashlib.sha256(b"\0".join([versions.encode(), *(f.read_bytes() for f in files)])).hexdigest()


def line(row: Row, found: dict[str, Any]) -> dict[str, Any]:
    """Of the table."""
    return {
        "task": row.task,
        "experiment": row.experiment,
        "measured_bytes": row.reserved,
        "predicted_bytes": found["max_reserved_bytes"],
        "error_percent": round(100 * (found["max_reserved_bytes"] / row.reserved - 1), 3),
        "trainable": row.trainable,
        "predicted_trainable": found["trainable"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data", metavar="DIR")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="as in the table: lora/llama-3.2-3B-rank32")
    args = parser.parse_args()
    for package in PACKAGES:
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise CoopsimError(f"{package} is not installed: pip install -r {HERE / 'requirements.txt'}") from None
    every = rows.read(args.data)
    chosen = [row for row in every if not args.rows or row.experiment in args.rows]
    if not chosen:
        raise CoopsimError(f"no such row: {', '.join(args.rows)}")
    table = []
    for i, row in enumerate(chosen, 1):
        try:
            table.append(line(row, predict(row)))
        except CoopsimError as e:
            note(f"{i} of {len(chosen)}: {row.name}: skipped: {e}")
            continue
        note(f"{i} of {len(chosen)}: {row.name}: {table[-1]['error_percent']:+.2f} %")
    if not table:
        raise CoopsimError("no row was predicted")
    note(page.summary(pd.DataFrame(table).error_percent))
    if not args.rows and args.data == HERE / "data":
        with replacing(EXPECTED / "peft.csv") as part, Path(part).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
        page.write("peft")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"run.py: {e}\n")
        sys.exit(2)
