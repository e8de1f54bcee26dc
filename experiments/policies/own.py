"""The policies of examples/policies beside Coop, on the eight models of its paper: docs/images/own-policies.png.

    python -m experiments.policies.own [-j JOBS]    writes expected/own.csv and the figure

Bands of 11 budgets within 5 % of the peak around 0.9 to 0.3 of it, ten steps, one arena: 2464 replays, six minutes on
two cores.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from coopsim.base.progress import note, watch
from coopsim.simulate.replay import warm_up
from coopsim.study import tables
from coopsim.study.figures import save, style
from coopsim.study.sweep import Grid, Processes, sweep

HERE = Path(__file__).parents[1]
EXAMPLES = HERE.parent / "examples" / "policies"
EXPECTED = HERE / "expected" / "own.csv"
PICTURE = HERE.parent / "docs" / "images" / "own-policies.png"
MODELS = ("bert-large", "bilstm", "gpt-2", "inception-v3", "resnet-50", "spos", "swin-t", "unet")
OWN = {"Gds": "greedy_dual_size.py", "LeCaR": "lecar.py", "ByChance": "by_chance.py"}
BAND, STEPS = 11, 10
RATIOS = [f"{r}%" for r in range(90, 20, -10)]


def swept(jobs: int) -> pd.DataFrame:
    """The bands of all replays."""
    warm_up()
    specs = [f"{EXAMPLES / file}:{name}" for name, file in OWN.items()]
    grid = Grid(
        [str(HERE.parent / "traces" / f"{m}.parquet") for m in MODELS],
        ["coop", *specs],
        budgets=RATIOS,
        band=BAND,
        options={"steps": STEPS},
    )
    folder = HERE.parent / "out" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with watch("replays") as report:
        rows = sweep(grid, folder / "own.parquet", Processes(jobs), report)
    note(f"{len(rows)} replays in {time.perf_counter() - began:.0f} s")
    found = tables.bands(rows)
    return found[["trace", "policy", "band_center", "points", "fits", "overhead", "overhead_spread"]]


def draw(found: pd.DataFrame) -> Figure:
    """The mean over models at which all bands of all policies fit; and how many budgets of all models fit."""
    looks = style.policies(["coop", *OWN])
    whole = (found.fits == found.points).groupby([found.trace, found.band_center]).transform("all")
    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.3 * s["height_in"]), layout="constrained")
        cost, fits = figure.subplots(1, 2)
        for policy, look in looks.items():
            mine = found[found.policy == policy]
            mean: Any = mine[whole[mine.index]].groupby("band_center").overhead.mean()
            cost.plot(100 * mean.index, 100 * (mean - 1), color=look.color, marker=look.marker, label=look.label)
            share: Any = mine.groupby("band_center")[["fits", "points"]].sum()
            fits.plot(100 * share.index, share.fits, color=look.color, marker=look.marker)
        models = found[whole & (found.policy == "coop")].groupby("band_center").trace.nunique()
        for center, n in models.items():
            cost.annotate(
                f"{n}", (100 * center, 0.92), xycoords=("data", "axes fraction"), ha="center", color="#777777"
            )
        cost.set_ylabel("mean overhead (%)")
        cost.set_title("on models where all fit (how many: above)", loc="left")
        fits.set_ylabel("budgets")
        fits.set_title(
            f"that fit, of {int(found[found.policy == 'coop'].groupby('band_center').points.sum().max())}", loc="left"
        )
        for ax in (cost, fits):
            ax.set_ylim(0)
            ax.grid(visible=True)
            ax.set_xlabel("memory ratio (% of the peak without eviction)")
        cost.set_ylim(0, 1.15 * cost.get_ylim()[1])
        figure.legend(loc="outside lower center", ncols=len(looks))
    return figure


def main() -> None:
    """Sweep, write the bands, draw them."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    swept(parser.parse_args().jobs).to_csv(EXPECTED, index=False, float_format="%.5f")
    save(draw(pd.read_csv(EXPECTED)), PICTURE)


if __name__ == "__main__":
    main()
