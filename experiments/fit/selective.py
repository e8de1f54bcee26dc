"""Selective checkpointing beside plain checkpointing and live, in the same memory, on three transformers.

    python experiments/fit/selective.py [NAME …]

All blocks are recomputed but for their products, on a card on which memory does not run out; what that takes is the
memory of the card on which the fewest blocks are looked for that suffice, and the largest budget of live.
"""

import csv
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from coopsim import files
from coopsim.fit import checkpointing, live, selective
from coopsim.fit.case import Case
from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import MARGIN, Trials
from coopsim.progress import note
from coopsim.script import Script

HERE = Path(__file__).parent
RESULTS = HERE.parent / "expected" / "fit" / "selective.csv"
CARD = "rtx-3060"
MODELS = {
    "BERT": ("trainer.py", "32"),
    "GPT-2": ("gpt2.py", "16"),
    "T5": ("t5.py", "32"),
}
COLUMNS = ("model", "memory_bytes", "kind", "text", "peak_device_bytes", "time_ratio", "same_numbers")


def main(names: list[str]) -> None:
    rows = []
    if RESULTS.exists():
        with RESULTS.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] not in (names or MODELS)]
    os.chdir(HERE / "scripts")
    for name in names or MODELS:
        note(f"--- {name}")
        rows += [dict(zip(COLUMNS, row, strict=True)) for row in measure(name)]
        rows.sort(key=lambda row: list(MODELS).index(row["model"]))
        with files.replacing(RESULTS) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(table(rows))


def measure(name: str) -> list[tuple[object, ...]]:
    """Of one model: plain, selective, live."""
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder, "requests.npy")
        trials = Trials(Script(("python", *MODELS[name]), card=CARD, quiet=True), note)
        survey = trials.survey(requests)
        case = Case(trials, survey, requests)
        everything = checkpointing.most(case)
        assert everything is not None
        assert survey.model is not None
        products = selective.choose(survey.model.ops, 1 << 60)
        chosen = case.nearest(selective.proposal(case, everything, products))
        memory = int(chosen.peak_device_bytes / (1 - MARGIN)) + (1 << 20)
        trials.script = replace(trials.script, memory_bytes=memory)
        done = case.verify(selective.proposal(case, everything, products))
        found = [next(checkpointing.find(case), None), done, next(live.find(case), None)]
        return [_row(name, memory, remedy) for remedy in found if remedy is not None]


def _row(name: str, memory: int, remedy: Remedy) -> tuple[object, ...]:
    kind = "selective" if remedy.changes.save else remedy.kind
    peak, time = remedy.peak_device_bytes, f"{remedy.time_ratio:.4f}"
    return name, memory, kind, remedy.text, peak, time, remedy.same_numbers


def table(rows: list[dict[str, object]]) -> str:
    """One row per model, in Markdown."""
    lines = ["| model | memory | checkpointing | selective | live |", "| --- | --- | --- | --- | --- |"]
    for name in dict.fromkeys(str(row["model"]) for row in rows):
        mine = {str(row["kind"]): row for row in rows if row["model"] == name}
        cells = [f"{int(str(next(iter(mine.values()))['memory_bytes'])) >> 20} MiB"]
        for kind in ("checkpointing", "selective", "live"):
            if kind in mine:
                text = str(mine[kind]["text"]).partition(":")[0].removeprefix("recompute ")
                blocks = "" if kind != "checkpointing" else f" ({text})"
                cells.append(f"{float(str(mine[kind]['time_ratio'])) - 1:+.1%}{blocks}")
            else:
                cells.append("does not fit")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
