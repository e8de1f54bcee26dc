"""The peak of a compiled model against PyTorch's activation_memory_budget, and against bytes asked of coopsim's solver.

python experiments/compiled/budget.py            trains on the phantom GPU (some minutes), writes table and figure
python experiments/compiled/budget.py --draw     draws the figure from the table
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "experiments" / "expected" / "compiled-budget.csv"
FIGURE = ROOT / "docs" / "images" / "compile-budget.png"
CARD = "gtx-1650"
RATIOS = ("1", "0.7", "0.5", "0.3", "0.2", "0.1", "0.05", "0.02")
#: Each is a process: what to train, how, under which budgets.
RUNS: tuple[tuple[str, ...], ...] = (
    ("llama", "aot_eager", *RATIOS),
    ("llama", "aot_eager", "450MiB", "360MiB", "300MiB", "260MiB", "230MiB", "200MiB", "195MiB", "170MiB"),
    ("llama", "inductor", "260MiB"),
    ("gpt", "aot_eager", "300MiB"),
    ("gpt", "inductor", "300MiB"),
)
COLUMNS = ("model", "backend", "budget", "peak_bytes", "expected_bytes", "recomputed_flops")


def take(words: tuple[str, ...]) -> list[dict[str, Any]]:
    """The readings of one process."""
    script = str(Path(__file__).with_name("solved.py"))
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", "--", "python", script]
    print(*words, file=sys.stderr, flush=True)
    run = subprocess.run([*command, *words], check=False, capture_output=True, text=True)  # noqa: S603
    if run.returncode:
        raise SystemExit(run.stderr.splitlines()[-1])
    return [json.loads(line) for line in run.stderr.splitlines() if line.startswith("{")]


def draw(rows: list[dict[str, Any]]) -> None:
    """Both curves."""
    import matplotlib.pyplot as plt

    mib = 1 << 20
    llama = [row for row in rows if (row["model"], row["backend"]) == ("llama", "aot_eager")]
    theirs = sorted((float(r["budget"]), int(r["peak_bytes"]) / mib) for r in llama if not r["expected_bytes"])
    ours = sorted(
        (float(r["budget"].removesuffix("MiB")), int(r["peak_bytes"]) / mib) for r in llama if r["expected_bytes"]
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    left.plot(*zip(*theirs, strict=True), marker="o", color="#9a3b26")
    left.set(xlabel="activation_memory_budget (PyTorch's solver)", ylabel="peak allocated (MiB)", xlim=(0, 1.02))
    right.plot([0, 1000], [0, 1000], color="0.6", linewidth=1, linestyle="--", label="the bytes asked for")
    right.plot(*zip(*ours, strict=True), marker="o", color="#1f5f8b", label="coopsim.run.compile.solver")
    right.set(xlabel="memory asked for (MiB)", xlim=(0, 1.05 * max(x for x, _ in ours)))
    right.set_ylim(0, 1.08 * max(y for _, y in [*theirs, *ours]))
    right.legend(frameon=False, loc="upper left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92")
    figure.savefig(FIGURE, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="from the table that is there")
    if not parser.parse_args().draw:
        rows: list[dict[str, Any]] = []
        for words in RUNS:
            rows += take(words)
            with TABLE.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
                table.writeheader()
                table.writerows(row for row in rows if "error" not in row)
            for row in rows:
                if "error" in row:
                    print(row["error"], file=sys.stderr)
    with TABLE.open(newline="", encoding="utf-8") as file:
        draw(list(csv.DictReader(file)))


if __name__ == "__main__":
    main()
