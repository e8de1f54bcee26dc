"""Fit the prices of prices.toml to what an H100 measured: its grid, and traces of models.

Usage: python -m experiments.gpu.fit_prices TABLE FOLDER. Writes the table, and prices.csv into the folder: of each
model, its step as measured, as priced, and as priced by a table fitted without the model.
"""

import csv
import datetime
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from coopsim.base.files import replacing
from coopsim.calibrate.fit_prices import Table, fit, predict
from coopsim.calibrate.grid_calls import Timed, timed
from coopsim.cards import profiles
from coopsim.cards.prices import FREE
from coopsim.trace import load
from experiments.gpu.calls import read
from experiments.gpu.starts import STARTS

CARD = "h100-80gb"
#: Full float32: 50 to 52 TFLOP/s in large products, of a peak of 67.
IEEE = 0.75

_HEAD = """\
# Prices of ops by class, on all cards: t = a + bytes / (b * bandwidth) + FLOPs / (f * peak).
#
# Made by `python -m experiments.gpu.fit_prices`, from ops one by one (grid.csv) and steps of models (calls.csv) that
# were measured on one H100. Carried over to other cards as shares of their peaks, which nobody has measured.
#
# a: ns. b: share of the memory's bandwidth; b16: with 16-bit operands. bl: b times this if channels-last. bo: b times
#   this if rows are no multiple of 16 bytes. c0: b times (channels or row length / c0) below c0.
# f: share of the tensor cores' peak in the operands' type, for float32 in TF32; f16: with 16-bit operands. fl: f times
#   this if channels-last. odd, odd16: f times this if rows are no multiple of 16 bytes.
# co, k: FLOPs times (co / output channels per group) below co, and times (k / products per element) below k.
# v, v16: in place of f (f16), share of the peak of plain FP32, for kernels that do not use tensor cores, or not well.
# ieee_fp32_of_peak: share of the peak of plain FP32 that products in full float32 reach.
"""


def text(table: Table, title: str, date: str) -> str:
    """The table as a TOML file."""
    lines = [_HEAD, f'card = "{title}"', f"date = {date}", f"ieee_fp32_of_peak = {IEEE}"]
    for kind, entries in table.items():
        lines += ["", f"[classes.{kind}]", *(f"{name} = {value:g}" for name, value in entries.items())]
    return "\n".join(lines) + "\n"


def steps(table: Table, calls: Iterable[Timed]) -> dict[str, tuple[float, float, float]]:
    """By model: ms measured, ms priced, and the sum of the ops' differences."""
    calls = [one for one in calls if one.call.kind != FREE]
    count = np.array([one.count for one in calls])
    measured = np.array([one.ns for one in calls]) * count / 1e6
    priced = predict(calls, table, profiles.get(CARD), IEEE) * count / 1e6
    found = {}
    for model in dict.fromkeys(one.where for one in calls):
        of = np.array([one.where == model for one in calls])
        found[model] = (measured[of].sum(), priced[of].sum(), np.abs(priced - measured)[of].sum())
    return {model: (float(a), float(b), float(c)) for model, (a, b, c) in found.items()}


def fitted(calls: list[Timed], grid: list[Timed]) -> Table:
    """The table fitted to calls of models and of a grid."""
    return fit(grid + calls, profiles.get(CARD), STARTS, IEEE, frozenset(one.where for one in calls))


def errors(folder: Path, calls: list[Timed], grid: list[Timed]) -> list[Mapping[str, object]]:
    """A row a model: its step measured, priced, and priced by a table of the other models and the grid.

    `left_out_by_op` is the sum of what ops differ by in the latter, as a share of the step.
    """
    rows: list[Mapping[str, object]] = []
    inside = steps(fitted(calls, grid), calls)
    for model, (_, priced, _) in inside.items():
        measured = float(load(folder / f"trace-{model}.parquet").cost_ns.sum()) / 1e6
        rest = fitted([one for one in calls if one.where != model], grid)
        _, without, apart = steps(rest, [one for one in calls if one.where == model])[model]
        rows.append(
            {
                "model": model,
                "measured_ms": round(measured, 2),
                "priced_ms": round(priced, 2),
                "left_out_ms": round(without, 2),
                "left_out_by_op": round(apart / measured, 3),
            }
        )
    return rows


def main(out: Path, folder: Path) -> None:
    """Write the table and the errors."""
    calls = read(folder / "calls.csv")
    with open(folder / "grid.csv", newline="", encoding="utf-8") as file:
        grid = timed(list(csv.DictReader(file)))
    date = datetime.date.fromisoformat(folder.name[-10:])
    with replacing(out) as temporary:
        temporary.write_text(text(fitted(calls, grid), profiles.get(CARD).title, str(date)), encoding="utf-8")
    with replacing(folder / "prices.csv") as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        rows = errors(folder, calls, grid)
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
