"""Plain gradient checkpointing on all committed traces, in the budgets of docs/policies.md.

    python -m experiments.checkpointing.everywhere [-j JOBS]        writes expected/checkpointed.csv

The checkpointed steps are made from the plain ones (blocks.py): the first k blocks of one depth of modules, for every
depth and at most 16 numbers k, evenly. Of those that run in a budget's arena without evicting anything, three steps in
a row, the cheapest counts. Bands of 11 budgets within 2.5 % of the peak, as the policies have. tests/experiments
compares the steps made so with recorded ones. A minute or two on one core.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from coopsim.base.files import replacing
from coopsim.base.progress import progress
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure, warm_up
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from experiments.checkpointing import blocks
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.policies.text import GROUPS

RATIOS, WIDTH, POINTS = (0.7, 0.5, 0.3), 0.05, 11
GRANULE, NUMBERS = 512, 16
FILE = EXPECTED / "checkpointed.csv"


def bands(name: str) -> list[dict[str, Any]]:
    """A row per memory ratio of one network."""
    plain = load(ROOT / "traces" / f"{name}.parquet")
    peak, cost = peak_bytes(plain, GRANULE), int(plain.cost_ns.sum())
    steps = sorted(_steps(plain), key=lambda step: step[0])
    rows = []
    for ratio in RATIOS:
        budgets = [round(peak * (ratio + d)) for d in np.linspace(-WIDTH / 2, WIDTH / 2, POINTS)]
        found = [x / cost for budget in budgets if (x := _cheapest(steps, budget)) is not None]
        row = {"trace": name, "policy": "checkpointing", "band_center": ratio, "points": POINTS, "fits": len(found)}
        rows.append(row | {"overhead": np.mean(found) if found else np.nan})
    return rows


def _steps(plain: Trace) -> list[tuple[int, int, Trace]]:
    """Cost, bytes at the peak and trace of each checkpointed step."""
    found = []
    for runs in blocks.levels(plain).values():
        for k in sorted({round(x) for x in np.linspace(1, len(runs), NUMBERS)}):
            trace = blocks.checkpointed(plain, runs[:k])
            found.append((int(trace.cost_ns.sum()), peak_bytes(trace, GRANULE), trace))
    return found


def _cheapest(steps: list[tuple[int, int, Trace]], budget: int) -> int | None:
    """The least cost of a step that runs in a budget; steps by rising cost."""
    for cost, peak, trace in steps:
        if peak <= budget:
            found = measure(trace, "coop", budget, options=ReplayOptions(3))
            if found["outcome"] == "ok" and not found["evictions"]:
                return cost
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="processes (default: one per core)")
    jobs = parser.parse_args().jobs
    warm_up()
    names = [name for group in GROUPS.values() for name in group]
    rows: list[dict[str, Any]] = []
    with progress("networks", len(names)) as tick, ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(bands, names):
            rows += found
            tick()
    with replacing(FILE) as part:
        pd.DataFrame(rows).to_csv(part, index=False, float_format="%.5f")


if __name__ == "__main__":
    main()
