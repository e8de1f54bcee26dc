"""Thrift and Foresight beside DTR, DTE and Coop, on all committed traces.

Bands of 11 budgets within 2.5 % of the peak around 0.9 to 0.3 of it, ten steps, one arena. A replay that costs twice
the step without a budget is given up: it is no contender, and exact DTR would go on for hours.

    python -m experiments.policies.compare [-j JOBS] [TRACE ...]    writes expected/policies*.csv and tables of docs/

14,000 replays, six minutes on two cores. It goes on where it was interrupted. At the middle of each band also what is
left free at a search where nothing has an address (allocator `counter`), because values are evicted whole.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

from coopsim.base.progress import progress
from coopsim.simulate.replay import replay, warm_up
from coopsim.study import tables
from coopsim.study.sweep import Grid, Processes, sweep
from experiments.common.pages import write_section
from experiments.policies import text as policies_text
from experiments.policies.text import COMPARED, GROUPS

HERE = Path(__file__).parents[1]
EXPECTED = HERE / "expected" / "policies.csv"
WITHOUT_ADDRESSES = HERE / "expected" / "policies-without-addresses.csv"
BY_GROUP = HERE / "expected" / "policies-groups.csv"
TRACES = [str(HERE.parent / "traces" / f"{name}.parquet") for names in GROUPS.values() for name in names]
RATIOS = [f"{r}%" for r in range(90, 20, -10)]
LIMIT = 2.0
COLUMNS = ["trace", "policy", "band_center", "points", "fits", "overhead", "overhead_spread", "fragmentation_rate"]


def compared(files: list[str], jobs: int) -> pd.DataFrame:
    """Replay everything. Returns the bands."""
    warm_up()
    grid = Grid(files, COMPARED, budgets=RATIOS, band=11, options={"overhead_limit": LIMIT})
    folder = HERE.parent / "out" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    with progress("replays", len(grid.points())) as tick:
        rows = sweep(grid, folder / "sweep.parquet", Processes(jobs), lambda done, _: tick() if done else None)
    return tables.bands(rows)[[*COLUMNS, "search_visits"]]


def without_addresses(files: list[str]) -> pd.DataFrame:
    """trace, policy, ratio and rate: free bytes / budget, the mean over searches; none where it does not fit."""
    rows = []
    with progress("traces without addresses", len(files)) as tick:
        for file in files:
            grid = Grid([file], ("dtr-oneflow", "thrift"), budgets=RATIOS, allocators=["counter"])
            ((_, trace),) = grid.loaded
            for point in grid.points():
                of = replay(trace, point.setting.policy, point.budget_bytes, "counter", overhead_limit=LIMIT).header
                rate = of["free_ratio_sum"] / of["searches"] if of["outcome"] == "ok" and of["searches"] else None
                about = {"trace": trace.label, "policy": point.setting.policy, "band_center": point.band_center}
                rows.append(about | {"rate": rate})
            tick()
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="trace files (default: all that are committed)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    args = parser.parse_args()
    table = compared(args.traces or TRACES, args.jobs)
    if args.traces:
        print(policies_text.cells(table))
        return
    table.to_csv(EXPECTED, index=False, float_format="%.5f")
    without_addresses(TRACES).to_csv(WITHOUT_ADDRESSES, index=False, float_format="%.5f")
    bands, left_free = (pd.read_csv(file) for file in (EXPECTED, WITHOUT_ADDRESSES))
    policies_text.groups(bands).to_csv(BY_GROUP, index=False, float_format="%.5f")
    write_section("policy sums", policies_text.compared(bands, left_free))


if __name__ == "__main__":
    main()
