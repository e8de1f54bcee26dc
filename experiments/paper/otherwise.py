"""What each choice changes that OneFlow makes otherwise than `coop`: overhead and fit on the eight models.

    python -m experiments.paper.otherwise [-j JOBS]        writes expected/otherwise.csv

Bands of 11 budgets within 2.5 % of the peak around 0.7 and 0.5 of it, ten steps, one arena. Compared are means over the
budgets at which both fit. It goes on where it was interrupted.
"""

import os

import pandas as pd

from coopsim.base.progress import watch
from coopsim.simulate.replay import warm_up
from coopsim.study.sweep import Grid, Processes, sweep
from experiments.common import arguments
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.pictures import MODELS

CHOICES = {
    "search=window_published": "the loop ends with the window's right end, so the last is never shrunk; inf - inf",
    "placement=two_ended_ops": "the workspace of an expensive op lies low, like its outputs",
    "in_place=first_run": "an in-place op that runs again writes to a new block",
    "node=storage": "an update in place hands on its union-find node; the old version gets one of cost 0",
    "dead=unsaved": "of what was missing only inputs not saved for backward go again, even if the program holds them",
    "dead=unsaved,release=counted": "and what stayed goes when no recorded op reads it",
    "small_area=top": "requests up to 10 KiB have the highest 10 MiB (their default; off in 2023's runs)",
}
ALL = "coop-oneflow"
RATIOS = ("70%", "50%")


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    warm_up()
    out = ROOT / "out" / "otherwise.parquet"
    out.parent.mkdir(parents=True, exist_ok=True)
    specs = ("coop", *(f"coop:{choice}" for choice in CHOICES), ALL)
    grid = Grid([str(ROOT / "traces" / f"{m}.parquet") for m in MODELS], specs, budgets=RATIOS, band=11)
    with watch("otherwise") as report:
        df = sweep(grid, out, Processes(jobs), report)
    found = pd.DataFrame([row(df, spec) for spec in specs[1:]])
    found.to_csv(EXPECTED / "otherwise.csv", index=False, float_format="%.5f")


def row(df: pd.DataFrame, spec: str) -> dict[str, object]:
    """The change in overhead of each budget at which both fit, in points; budgets at which one of them fits."""
    keys = ["trace", "budget_bytes"]
    both = df[df.policy == "coop"].merge(df[df.policy == spec], on=keys, suffixes=("", "_other"))
    fit, fit_other = (both[c] == "ok" for c in ("outcome", "outcome_other"))
    points = 100 * (both.overhead_other - both.overhead)[fit & fit_other]
    by_model = points.groupby(both.trace).mean()
    return {
        "policy": spec,
        "otherwise": CHOICES.get(spec.removeprefix("coop:"), "all but small_area: the program"),
        "budgets": len(both),
        "fit": int(fit.sum()),
        "fit_other": int(fit_other.sum()),
        "same": int((points == 0).sum()),
        "mean": points.mean(),
        "least": by_model.min(),
        "least_model": by_model.idxmin(),
        "most": by_model.max(),
        "most_model": by_model.idxmax(),
    }


if __name__ == "__main__":
    main()
