"""Thrift and Foresight beside DTR, DTE and Coop, on all committed traces: docs/policies-ours.md's tables.

Bands of 11 budgets within 2.5 % of 0.9 to 0.3 of the peak, ten steps. The best at a point is the least of the others
that fit all 11.

    python experiments/policies.py [TRACE ...]        writes expected/policies.csv and the tables

It takes some hours (exact DTR thrashes), and goes on where it was interrupted.
"""

import sys
from pathlib import Path

import pandas as pd
from readme import write_section

from coopsim import tables
from coopsim.cli.common import progress
from coopsim.cli.grid import warm_up
from coopsim.sweep import Grid, Processes, sweep

HERE = Path(__file__).parent
TRACES = sorted((HERE.parent / "traces").glob("*.parquet"))
PUBLISHED = ("dtr-oneflow", "dtr", "dtr-eq", "dte-oneflow", "coop")
OURS = ("thrift", "foresight")
RATIOS = [f"{r}%" for r in range(90, 20, -10)]


def main(files: list[str]) -> None:
    warm_up()
    grid = Grid(files, PUBLISHED + OURS, budgets=RATIOS, band=11)
    folder = HERE.parent / "out" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    with progress("replays", len(grid.points())) as tick:
        rows = sweep(grid, folder / "sweep.parquet", Processes(), lambda done, _: tick() if done else None)
    table = tables.bands(rows)
    columns = ["trace", "policy", "band_center", "points", "fits", "overhead", "overhead_spread", "fragmentation_rate"]
    table = table[[*columns, "search_visits"]]
    table.to_csv(HERE / "expected" / "policies.csv", index=False, float_format="%.5f")
    write_section("policies", markdown(table), HERE.parent / "docs" / "policies-ours.md")


def markdown(table: pd.DataFrame) -> str:
    """A line a trace and ratio at which anything fits, and the sums where all fit."""
    lines = [f"| overhead - 1, % | at | {' | '.join(PUBLISHED + OURS)} |", "|---" * (2 + len(PUBLISHED + OURS)) + "|"]
    sums = dict.fromkeys(OURS, 0.0)
    of_best, cells = 0.0, 0
    for (trace, ratio), group in table.groupby(["trace", "band_center"], sort=False):
        row = group.set_index("policy")
        if row.fits.any():
            lines.append(f"| {trace} | {ratio:g} | {' | '.join(_cell(row.loc[p]) for p in PUBLISHED + OURS)} |")
        whole = row[row.fits == row.points]
        if {"dtr-oneflow", "dte-oneflow", "coop", *OURS} <= set(whole.index):
            cells += 1
            of_best += 100 * (whole.overhead[[p for p in PUBLISHED if p in whole.index]].min() - 1)
            for p in OURS:
                sums[p] += 100 * (whole.overhead[p] - 1)
    lines += [
        "",
        f"Sum over the {cells} points where DTR, DTE, Coop and ours fit all budgets: best of theirs {of_best:.1f}",
    ]
    for p, total in sums.items():
        lines[-1] += f"; {p} {total:.1f} ({100 * (total / of_best - 1) if of_best else 0:+.1f} %)"
    return "\n".join(lines) + "."


def _cell(row: pd.Series) -> str:
    if row.fits == 0:
        return "-"
    some = "" if row.fits == row.points else f" ({row.fits} of {row.points})"
    return f"{100 * (row.overhead - 1):.1f} ± {100 * row.overhead_spread:.1f}{some}"


if __name__ == "__main__":
    main(sys.argv[1:] or [str(file) for file in TRACES])
