"""The smallest budgets of the policies on four networks, to 0.05 % of the peak: ten steps in one arena.

    python -m experiments.policies.smallest [-j JOBS] [POLICY ...]    writes expected/smallest-policies.csv

With policies, only their rows are made anew. A quarter of an hour on one core; it goes on where it was interrupted.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

from coopsim.base.progress import watch
from coopsim.simulate.replay import warm_up
from coopsim.study import tables
from coopsim.study.sweep import Grid, Processes, Scan, feasibility_map

HERE = Path(__file__).parents[1]
EXPECTED = HERE / "expected" / "smallest-policies.csv"
TRACES = [str(HERE.parent / "traces" / f"{name}.parquet") for name in ("unet", "resnet-50", "swin-t", "bert-large")]
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight", "foresight-offline")
SCAN = Scan(top="70%", bottom="12%")


def smallest(policies: list[str], jobs: int) -> pd.DataFrame:
    """A row per network and policy: the smallest budget from which all fit, and the smallest that fits."""
    warm_up()
    folder = HERE.parent / "out" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    with watch("replays") as report:
        found = feasibility_map(Grid(TRACES, policies), SCAN, folder / "smallest.parquet", Processes(jobs), report)
    table = tables.smallest_budgets(found)
    percent = {f"smallest_{name}_percent": 100 * table[of] for name, of in (("safe", "safe"), ("fit", "smallest"))}
    return table[["trace", "policy"]].assign(**percent)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY", help="policies (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    args = parser.parse_args()
    table = smallest(args.policies or list(POLICIES), args.jobs)
    if args.policies:
        kept = pd.read_csv(EXPECTED)
        table = pd.concat([kept[~kept.policy.isin(args.policies)], table])
    names = [Path(trace).stem for trace in TRACES]
    table = table.sort_values(["trace", "policy"], key=lambda column: column.map([*names, *POLICIES].index))
    table.to_csv(EXPECTED, index=False, float_format="%.2f")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
