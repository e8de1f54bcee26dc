"""What copies cost DTR and DTE: smallest budgets of the eight models with the three forms of updates.

    python -m experiments.paper.copies [-j JOBS]        writes expected/copies.csv

`copy` copies whatever an op updates, as DTR's paper has it; `copy_outputs` all but parameters, buffers and optimizer
state, as the runs of Coop's authors did; `first_run` nothing, as in their last code. Ten steps in one arena, a map of
every half percent of the peak, refined to 0.05 % where the outcome changes. It goes on where it was interrupted.
"""

import os

import pandas as pd

from coopsim.base.progress import progress
from coopsim.simulate.replay import warm_up
from coopsim.study import tables
from coopsim.study.sweep import Grid, Processes, Scan, feasibility_map
from experiments.common import arguments
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.pictures import MODELS

FORMS = ("copy", "copy_outputs", "first_run")
BASELINES = ("dtr-oneflow", "dte-oneflow")


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    warm_up()
    policies = [f"{policy}:in_place={form}" for policy in BASELINES for form in FORMS]
    out = ROOT / "out" / "copies"
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    with progress("models", len(MODELS)) as tick:
        for model in MODELS:
            grid = Grid([str(ROOT / "traces" / f"{model}.parquet")], (*policies, "coop"))
            scan = feasibility_map(grid, Scan(bottom="5%"), out / f"{model}.parquet", Processes(jobs))
            rows.append(tables.smallest_budgets(scan))
            tick()
    found = pd.concat(rows, ignore_index=True)[["trace", "policy", "smallest", "safe", "failing"]]
    found.to_csv(EXPECTED / "copies.csv", index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
