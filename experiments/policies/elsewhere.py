"""Thrift and Foresight beside DTR, DTE and Coop in other settings: cards, precision, batch sizes, costs that decide.

Two models, bands of 11 budgets within 2.5 % of the peak around 0.8, 0.6 and 0.4 of it, ten steps, one arena, and the
limit of compare.py. DTR in the one form that OneFlow's authors compare with. Traces are recorded into out/, not kept.

    python -m experiments.policies.elsewhere [-j JOBS]    writes expected/policies-elsewhere.csv, a sentence

Some ten minutes of processor time. It goes on where it was interrupted.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

from coopsim.base.progress import progress
from coopsim.simulate.replay import warm_up
from coopsim.study import tables
from coopsim.study.sweep import Grid, Processes, sweep
from experiments.common.pages import write_section
from experiments.policies import text as policies_text
from experiments.policies.compare import COLUMNS, HERE, LIMIT

FOLDER = HERE.parent / "out" / "policies-elsewhere"
EXPECTED = HERE / "expected" / "policies-elsewhere.csv"
COMPARED = ("dtr-oneflow", "dte-oneflow", "coop", *policies_text.OURS)
RATIOS = ("80%", "60%", "40%")
MODELS = ("bert-large", "resnet-50")
#: What is other than in the headline setting: options of `capture` by model, or the cost that decides.
SETTINGS: dict[str, dict[str, tuple[str, ...]] | str] = {
    "H100": dict.fromkeys(MODELS, ("--gpu", "h100-80gb")),
    "L40S": dict.fromkeys(MODELS, ("--gpu", "l40s")),
    "FP32 products": dict.fromkeys(MODELS, ("--precision", "fp32")),
    "half the batch": {"bert-large": ("--batch", "8"), "resnet-50": ("--batch", "58")},
    "cost model: bytes moved": "bytes",
    "cost model: operations": "flops",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    jobs = parser.parse_args().jobs
    FOLDER.mkdir(parents=True, exist_ok=True)
    warm_up()
    found = []
    for name, what in SETTINGS.items():
        slug = name.replace(": ", "-").replace(" ", "-")
        files = [str(HERE.parent / "traces" / f"{model}.parquet") for model in MODELS]
        options: dict[str, object] = {"overhead_limit": LIMIT}
        if isinstance(what, str):
            options["cost_model"] = what
        else:
            files = [str(_recorded(model, what[model], slug)) for model in MODELS]
        grid = Grid(files, COMPARED, budgets=list(RATIOS), band=11, options=options)
        with progress(name, len(grid.points())) as tick:
            rows = sweep(
                grid, FOLDER / f"{slug}.parquet", Processes(jobs), lambda done, _, t=tick: t() if done else None
            )
        bands = tables.bands(rows)[[*COLUMNS, "search_visits"]]
        found.append(bands.assign(setting=name, model=[_model(str(trace)) for trace in bands.trace]))
    pd.concat(found).to_csv(EXPECTED, index=False, float_format="%.5f")
    write_section("policies elsewhere", policies_text.elsewhere(pd.read_csv(EXPECTED)))


def _recorded(model: str, how: tuple[str, ...], slug: str) -> Path:
    """The trace of a model in a setting; recorded if it is not there yet."""
    path = FOLDER / f"{model}_{slug}.parquet"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "coopsim", "capture", model, *how, "-o", path], check=True)  # noqa: S603
    return path


def _model(trace: str) -> str:
    return next(model for model in MODELS if trace.startswith(model))


if __name__ == "__main__":
    main()
