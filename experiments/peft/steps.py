"""All 5000 steps of peft's language runs: mean, 99th percentile and maximum of reserved memory after each step.

    python experiments/peft/steps.py [--data DIR] [--parameters MU SIGMA] [ROW …]

Some steps of each row run under `coopsim phantom run`; their requests are replayed (coopsim.run.longrun) for 5000 steps
of lengths that are not published. These are drawn from one log-normal distribution of texts, as the comparison batches
them: 80 texts, sorted from long to short, in 20 batches, with an emptied cache every ten steps. Its two parameters are
fitted to mean and percentile of one row; all other rows are predicted. Generation every 250 steps is left out,
and lengths are rounded to multiples of 8. Writes the rows that were asked for (default: all) to
expected/peft-steps.csv, where others stay as they are; with other parameters nothing is written.
"""

import argparse
import csv
import random
import sys
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import rows
from page import FITTED
from rows import Row

from coopsim.base.files import replacing
from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.run import Script, run
from coopsim.run.longrun.play import PEAK_RESERVED, RESERVED
from coopsim.run.longrun.recorded import RecordedSteps
from coopsim.run.longrun.run import Card, LongRun
from experiments.figures.experiment import EXPECTED, ROOT

HERE = Path(__file__).parent
FOLDER = ROOT / "out" / "peft-steps"
STEPS, LONGEST, SHORTEST = 5000, 696, 40
#: Of the logarithm of a text's tokens: mean and standard deviation. Fitted: with them mean and percentile of the row
#: FITTED come out nearest (--parameters tries others).
MU, SIGMA = 5.316, 0.321
_TEXTS, _BATCHES = 80, 20
Figures: TypeAlias = tuple[float, float, int]  #: of reserved bytes after steps: mean, 99th percentile; the most at all
_COLUMNS = ("experiment", *(f"{of}_{what}" for of in ("measured", "predicted") for what in ("mean", "p99", "max")))


def recorded(row: Row) -> Path:
    """The requests of some steps of a row, recorded unless they have been."""
    path = FOLDER / f"{row.experiment.replace('/', '--')}.npz"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    lengths = [304, 200, 152, *range(SHORTEST, LONGEST + 1, 16), *range(SHORTEST + 8, LONGEST + 1, 80), LONGEST]
    words = [str(n) for i, n in enumerate(lengths) for n in ([0, n] if i % 10 == 0 and i else [n])]
    command = (sys.executable, str(HERE / "language.py"), str(row.folder), str(path.with_suffix(".json")), *words)
    note(f"{row.experiment}: {len(lengths)} steps")
    run(Script(command, card=rows.CARD, memory_bytes=1 << 40, masks="all", quiet=True), step_requests=path)
    return path


def lengths_of(mu: float, sigma: float, count: int) -> list[int]:
    """The lengths of so many batches: the longest of four texts each."""
    source = random.Random(0)
    found: list[int] = []
    while len(found) < count:
        texts = sorted((source.lognormvariate(mu, sigma) for _ in range(_TEXTS)), reverse=True)
        found += [8 * max(round(n / 8), 1) for n in texts[:: _TEXTS // _BATCHES]]
    found = [min(max(n, SHORTEST), LONGEST) for n in found[:count]]
    return found if LONGEST in found else [*found[:-1], LONGEST]


def figures(path: Path, lengths: list[int]) -> Figures:
    """Mean, 99th percentile and maximum of reserved bytes."""
    file = path.with_suffix(".txt")
    file.write_text("".join(f"{n}\n" for n in lengths))
    it = LongRun(RecordedSteps.load(path), file, None)
    card = profiles.get(rows.CARD)
    played = it.play(Card(card.memory_bytes - (card.context_mib << 20)))
    if played.failed:
        raise CoopsimError(f"{path.stem}: out of memory at step {len(played.bytes)}")
    if it.stood_in or it.book.left_out:
        note(f"{path.stem}: {it.stood_in} steps of the next longer length, {it.book.left_out} parts left out")
    after = played.bytes[:, RESERVED]
    return float(after.mean()), float(np.percentile(after, 99)), int(played.bytes[:, PEAK_RESERVED].max())


def measured(data: Path) -> dict[str, Figures]:
    """Mean, 99th percentile and maximum of each language row, as measured on the card."""
    with (data / "truth.csv").open(newline="", encoding="utf-8") as file:
        return {
            r["experiment"]: (
                float(r["reserved_mean_bytes"]),
                float(r["reserved_p99_bytes"]),
                int(r["max_reserved_bytes"]),
            )
            for r in csv.DictReader(file)
            if r["task"] == "MetaMathQA"
        }


def write(found: dict[str, tuple[Figures, Figures]]) -> None:
    """Write rows to the table, measured and predicted, beside those that it has of others; the fitted one is first."""
    path = EXPECTED / "peft-steps.csv"
    with path.open(newline="", encoding="utf-8") as file:
        lines = {line[0]: line[1:] for line in list(csv.reader(file))[1:]}
    lines |= {name: [str(round(n)) for n in (*truth, *said)] for name, (truth, said) in found.items()}
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_COLUMNS)
        table.writerows([name, *lines[name]] for name in sorted(lines, key=lambda name: (name != FITTED, name)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data", metavar="DIR")
    parser.add_argument("--parameters", type=float, nargs=2, default=(MU, SIGMA), metavar=("MU", "SIGMA"))
    parser.add_argument("rows", nargs="*", metavar="ROW")
    args = parser.parse_args()
    truth = measured(args.data)
    every = [row for row in rows.read(args.data) if row.task == "MetaMathQA"]
    chosen = [row for row in every if not args.rows or row.experiment in args.rows]
    if not chosen:
        raise CoopsimError(f"no such row: {', '.join(args.rows)}")
    for row in chosen:
        try:
            said = figures(recorded(row), lengths_of(*args.parameters, STEPS))
        except CoopsimError as e:
            note(f"{row.experiment}: {e}")
            continue
        of = truth[row.experiment]
        print(row.experiment, *(f"{100 * (a / b - 1):+.2f} %" for a, b in zip(said, of, strict=True)), flush=True)
        if tuple(args.parameters) == (MU, SIGMA):
            write({row.experiment: (of, said)})
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"steps.py: {e}\n")
        sys.exit(2)
