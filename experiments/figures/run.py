"""Make the tables and figures of experiments/figures/*.toml, and compare the tables with experiments/expected/.

    python -m experiments.figures.run                   all: out/tables/*.parquet, out/figures/*.png and *.pdf
    python -m experiments.figures.run overhead gap      only these
    python -m experiments.figures.run --update          write expected/*.csv, the tables of docs/ and its pictures anew
    python -m experiments.figures.run --redraw          draw the tables that are in out/tables again

An experiment that was cut off goes on where it was. Exit code 1 if a table is not the expected one.
"""

import argparse
import io
import os
import sys
import time
from pathlib import Path
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.files import replacing
from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.study.sweep import WALL_CLOCK_COLUMNS
from experiments.figures import pictures, results
from experiments.figures.experiment import EXPECTED, ROOT, Experiment, experiments

PAGE = ROOT / "docs" / "images" / "results"
PAGE_DPI = 140


def as_csv(result: Any) -> str:
    """An expected result as text: eight digits, more than any table shows and fewer than machines differ in."""
    return str(result.to_csv(index=False, float_format="%.8g"))


def differences(found: str, expected: str) -> list[str]:
    """The rows that are not as expected, wall-clock columns apart; a line each."""
    import pandas as pd

    a, b = (pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False) for text in (found, expected))
    a, b = (t.drop(columns=[c for c in WALL_CLOCK_COLUMNS if c in t]) for t in (a, b))
    if list(a.columns) != list(b.columns) or len(a) != len(b):
        return [f"{len(a)} rows of {len(a.columns)} columns, not {len(b)} of {len(b.columns)}"]
    rows = zip(a.itertuples(index=False), b.itertuples(index=False), strict=True)
    return [f"{' '.join(x[:3])}: {name} {found}, not {wanted}" for x, y in rows
            for name, found, wanted in zip(a.columns, x, y, strict=True) if found != wanted]  # fmt: skip


def table_of(experiment: Experiment, out: Path, jobs: int, *, redraw: bool) -> Any:
    """What is drawn: rows of replays, or an expected result that takes long to make."""
    import pandas as pd

    if "read" in experiment.figure:
        return pd.read_csv(EXPECTED / f"{experiment.figure['read']}.csv")
    path = out / "tables" / f"{experiment.figure.get('of', experiment.name)}.parquet"
    if experiment.replays and not redraw:
        path.parent.mkdir(parents=True, exist_ok=True)
        return experiment.perform(path, jobs)
    if not path.exists():
        raise CoopsimError(f"{experiment.path}: {path} is not there; make {path.stem} first")
    return pd.read_parquet(path)


def draw(experiment: Experiment, table: Any, out: Path, *, update: bool) -> None:
    """The figure as PNG and PDF; for the results page, too, if that is to be updated."""
    from coopsim.study.figures import save

    figure = pictures.draw(experiment.figure["draw"], table)
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for form in ("pdf", "png"):
        note(f"wrote {save(figure, out / 'figures' / f'{experiment.name}.{form}')}")
    if update and experiment.figure["draw"] not in pictures.WALL_CLOCK:
        PAGE.mkdir(parents=True, exist_ok=True)
        save(figure, PAGE / f"{experiment.name}.png", dpi=PAGE_DPI)


def compare(experiment: Experiment, table: Any, *, update: bool) -> list[str]:
    """What differs from the expected result, which is written if `update` says so."""
    text = as_csv(experiment.result(table))
    path = EXPECTED / f"{experiment.name}.csv"
    if update:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
        return []
    return differences(text, path.read_text(encoding="utf-8")) if path.exists() else ["there is no expected result"]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    parser.add_argument("--update", action="store_true", help="write the expected results and the results page")
    parser.add_argument("--redraw", action="store_true", help="replay nothing: draw the tables that are there")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out", help="folder (default: out)")
    args = parser.parse_args()
    known = experiments()
    wrong = 0
    for name in args.names:
        if name not in known:
            raise unknown("experiment", name, known)
    for experiment in (e for e in known.values() if not args.names or e.name in args.names):
        began = time.monotonic()
        table = table_of(experiment, args.output, args.jobs, redraw=args.redraw)
        if experiment.replays:
            found = compare(experiment, table, update=args.update)
            for line in found[:5]:
                note(f"{experiment.name}: {line}")
            wrong += bool(found)
        draw(experiment, table, args.output, update=args.update)
        note(f"{experiment.name}: {time.monotonic() - began:.0f} s")
    if args.update:
        results.write()
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        note(f"error: {e}")
        sys.exit(2)
