"""What copies cost DTR and DTE: smallest budgets of the eight models with the three forms of updates.

    python -m experiments.paper.copies [-j JOBS]        writes expected/copies.csv and its table in docs/sensitivity.md

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
from experiments.common.pages import write_section
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.pictures import MODELS
from experiments.figures.results import table

FORMS = ("copy", "copy_outputs", "first_run")
BASELINES = ("dtr-oneflow", "dte-oneflow")
WORDS = {"dtr-oneflow": "DTR", "dte-oneflow": "DTE"}


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
    write_section("copies", section(found))


def section(found: pd.DataFrame) -> str:
    """Smallest safe budgets, and where each form fits at all."""

    def cell(model: str, policy: str) -> str:
        row = found[(found.trace == model) & (found.policy == policy)].iloc[0]
        return "none" if pd.isna(row.safe) else f"{100 * row.safe:.1f} ({100 * row.smallest:.1f})"

    names = [f"{WORDS[policy]}, `{form}`" for policy in BASELINES for form in FORMS]
    specs = [f"{policy}:in_place={form}" for policy in BASELINES for form in FORMS]
    rows = [[model, *(cell(model, spec) for spec in (*specs, "coop"))] for model in MODELS]
    return table(["smallest safe budget, % of peak (fits at all from)", *names, "Coop"], rows)


if __name__ == "__main__":
    main()
