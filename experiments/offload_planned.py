"""What planned offload saves: overhead of Foresight with and without it, by card, over PCIe 4.

    python experiments/offload_planned.py [-j JOBS]  writes expected/offload-planned.csv and a table of docs/offload.md

Models, cards and op times as in offload.py. Three budgets within 2.5 % of the peak around 0.5 and 0.3 of it, three
steps, one arena, host memory without a limit; each follows a plan made for it. It goes on where it was interrupted.
"""

import os

import arguments
import pandas as pd
from experiment import EXPECTED, ROOT
from offload import CARDS, on_card
from pages import DOCS, write_section
from pictures import MODELS
from results import table

from coopsim.progress import watch
from coopsim.replay import warm_up
from coopsim.sweep import Grid, Processes, sweep
from coopsim.trace import load

WITHOUT, WITH = "foresight-offline", "foresight-offline:lose=either"
RATIOS = ("50%", "30%")


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    warm_up()
    traces = [on_card(load(ROOT / "traces" / f"{model}.parquet"), card) for model in MODELS for card in CARDS]
    (ROOT / "out").mkdir(exist_ok=True)
    grid = Grid(traces, (WITHOUT, WITH), budgets=RATIOS, band=3, options={"link": "pcie4-x16", "steps": 3})
    with watch("offload, planned") as report:
        df = sweep(grid, ROOT / "out" / "offload-planned.parquet", Processes(jobs), report)
    found = summary(df)
    found.to_csv(EXPECTED / "offload-planned.csv", index=False, float_format="%.5f")
    write_section("planned", section(found), DOCS / "offload.md")


def summary(df: pd.DataFrame) -> pd.DataFrame:
    """A row for each model, card, policy and nominal budget: percent, over the budgets that fit."""
    names = df.trace.str.split(", ", expand=True)
    df = df.assign(model=names[0], card=names[1], fits=df.outcome == "ok")
    df["percent"] = (100 * (df.overhead - 1)).where(df.fits)
    df["stall"] = (100 * df.stall_ns.astype("float64") / df.base_cost_ns).where(df.fits)
    df["host_gib"] = (df.host_peak_bytes.astype("float64") / 2**30).where(df.fits)
    df["planned"] = (df.planned_steps / df.steps).where(df.fits)
    grouped = df.groupby(["card", "model", "policy", "budget"], sort=False, observed=True)
    return grouped.agg(
        fits=("fits", "sum"),
        budgets=("fits", "size"),
        percent=("percent", "mean"),
        percent_max=("percent", "max"),
        stall=("stall", "mean"),
        host_gib=("host_gib", "max"),
        planned=("planned", "min"),
    ).reset_index()


def section(found: pd.DataFrame) -> str:
    """Mean overhead of each model without and with offload."""
    rows = []
    for model in MODELS:
        cells = []
        for card in CARDS:
            for budget in RATIOS:
                of = found[(found.model == model) & (found.card == card) & (found.budget == budget)].set_index("policy")
                both = [shown(of.loc[policy]) for policy in (WITHOUT, WITH)]
                cells.append(" → ".join(both))
        rows.append([model, *cells])
    return table(["overhead, %: recompute → with offload", *(f"{c}, {b}" for c in CARDS for b in RATIOS)], rows)


def shown(row: pd.Series) -> str:
    """A mean; in brackets if not all budgets of the band fit."""
    if row.fits == 0:
        return "does not fit"
    return f"{row.percent:.1f}" if row.fits == row.budgets else f"({row.percent:.1f})"


if __name__ == "__main__":
    main()
