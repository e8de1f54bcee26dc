"""How far a planned step of Foresight, Coop and the rest are from a lower bound, on all committed traces.

    python -m experiments.optimum.bounds [-j JOBS]             writes expected/bounds.csv, tables of docs/optimum.md
    python -m experiments.optimum.bounds --policies [-j JOBS]  replays the policies again, keeps the bounds

At 0.9 to 0.3 of the peak, one budget each: what no schedule costs less than (coopsim/study/optimum), and what the third
of three iterations in one arena costs (as in planned_gap.py; an iteration is all steps of the trace). A replay that
costs twice the step without a budget is given up, as in policies/compare.py. All of it takes some minutes; replays go
on where they were interrupted.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

from coopsim.base.progress import progress
from coopsim.base.types import Outcome
from coopsim.simulate.replay import warm_up
from coopsim.study import optimum
from coopsim.study.sweep import Grid, Processes, sweep
from coopsim.trace import load
from experiments.common.pages import write_section
from experiments.figures.pictures import MODELS as REFERENCE
from experiments.policies.compare import LIMIT, RATIOS, TRACES
from experiments.policies.text import DTR

HERE = Path(__file__).parents[1]
EXPECTED = HERE / "expected" / "bounds.csv"
THREE = (*DTR, "dte-oneflow", "coop")
POLICIES = (*THREE, "foresight")
SHOWN = (0.7, 0.5)
CELL = ["trace", "memory_ratio"]
FITS_NOWHERE = "infeasible"


def replays(files: list[str], jobs: int) -> pd.DataFrame:
    """A row a trace and ratio: the overhead of the third iteration under each policy; none if one of three fails."""
    folder = HERE.parent / "out" / "bounds"
    folder.mkdir(parents=True, exist_ok=True)
    warm_up()
    by_length: dict[int, list[str]] = {}
    for file in files:
        by_length.setdefault(load(file).n_steps, []).append(file)
    parts = []
    for n, of_length in by_length.items():
        options = {"steps": [2 * n, 3 * n], "overhead_limit": LIMIT}
        grid = Grid(of_length, POLICIES, budgets=RATIOS, options=options)
        with progress(f"replays of traces with {n} step{'s' * (n > 1)}", len(grid.points())) as tick:
            rows = sweep(grid, folder / f"{n}.parquet", Processes(jobs), lambda done, _, t=tick: t() if done else None)
        parts.append(third(rows, n))
    return pd.concat(parts, ignore_index=True)


def third(rows: pd.DataFrame, n_steps: int) -> pd.DataFrame:
    """The overhead of the third iteration alone, from rows of two and of three, which begin in the same way."""
    key = ["trace", "band_center", "budget_bytes", "policy"]
    cost = rows.total_cost_ns.where(rows.outcome == Outcome.OK)
    two, three = (rows.assign(cost=cost)[rows.steps == k * n_steps].set_index(key) for k in (2, 3))
    overhead = (three.cost - two.cost) / (three.base_cost_ns / 3)
    table = overhead.unstack("policy")[list(POLICIES)].reset_index()
    return table.rename(columns={"band_center": "memory_ratio"}).rename_axis(columns=None)


def bounds(files: list[str], wanted: pd.DataFrame) -> pd.DataFrame:
    """A row a trace and ratio: ops, status, the bound and where it comes from, the cheapest schedule known."""
    rows = []
    with progress("bounds", len(wanted)) as tick:
        for file in files:
            trace = load(file)
            problem = optimum.problem_of(trace)
            for cell in wanted[wanted.trace == trace.label].itertuples():
                found = optimum.solve(problem, cell.budget_bytes, whole=False)
                least = None if found.status == FITS_NOWHERE else found.lower_bound
                about = {"trace": trace.label, "memory_ratio": cell.memory_ratio, "ops": problem.n_ops}
                costs = {"lower_bound": least, "known": found.overhead}
                rows.append(about | {"status": found.status, "bound": found.bound} | costs)
                tick()
    return pd.DataFrame(rows)


def markdown(table: pd.DataFrame) -> str:
    """Bound, cheapest schedule known, policies, by trace and ratio; then the sums over all traces where all fit."""
    table = table.assign(best=table[list(THREE)].min(axis=1))
    columns = ("lower_bound", "foresight", "coop", "best")
    head = [
        "overhead, %: bound (schedule from it) / Foresight / Coop / best of DTR, DTE, Coop",
        *(f"{r:.0%}" for r in SHOWN),
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for trace, part in table[table.trace.isin(REFERENCE)].groupby("trace", sort=False):
        by_ratio = part.set_index("memory_ratio")
        cells = [_cell(by_ratio.loc[r], columns) for r in SHOWN]
        lines.append(f"| {trace} | {' | '.join(cells)} |")
    whole = table[table[[*columns]].notna().all(axis=1)]
    sums = {c: 100 * (whole[c] - 1).sum() for c in columns}
    saved = (sums["best"] - sums["foresight"]) / (sums["best"] - sums["lower_bound"])
    near = 100 * (table.known - table.lower_bound).dropna()
    names = ("lower bound", "Foresight", "best of DTR, DTE, Coop", "Coop")
    totals = (f"{sums[c]:.1f}" for c in ("lower_bound", "foresight", "best", "coop"))
    lines += ["", f"| {len(whole)} of {len(table)} cells, in which all fit | {' | '.join(names)} |", "|---" * 5 + "|"]
    lines.append(f"| overhead, summed, points | {' | '.join(totals)} |")
    lines += ["", f"Of what can be saved of the best of the three, Foresight saves at least {100 * saved:.0f} %."]
    fits = (
        f"In {len(near)} cells a schedule from the cut fits, {near.median():.2f} points above the bound in the median."
    )
    return "\n".join([*lines, fits])


def _cell(row: pd.Series, columns: tuple[str, ...]) -> str:
    if row.status == FITS_NOWHERE:
        return "nothing fits"
    cells = ["-" if pd.isna(row[c]) else f"{100 * (row[c] - 1):.1f}" for c in columns]
    known = "-" if pd.isna(row.known) else f"{100 * (row.known - 1):.1f}"
    return " / ".join([f"{cells[0]} ({known})", *cells[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--policies", action="store_true", help="keep the bounds of expected/bounds.csv")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    args = parser.parse_args()
    replayed = replays(TRACES, args.jobs)
    columns = [*CELL, "ops", "status", "bound", "lower_bound", "known"]
    least = pd.read_csv(EXPECTED)[columns] if args.policies else bounds(TRACES, replayed)
    table = least.merge(replayed, on=CELL, validate="1:1")
    table.to_csv(EXPECTED, index=False, float_format="%.6f")
    write_section("bounds", markdown(pd.read_csv(EXPECTED)))


if __name__ == "__main__":
    main()
