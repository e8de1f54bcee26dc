"""How far a step of Thrift and Foresight, once they know it, is from the optimum, on the small traces of gap.py.

    python -m experiments.optimum.planned_gap        writes expected/planned_gap.csv, and its sums in docs/optimum.md

A policy that learns from the step before needs one: counted is the third step of three in one memory
(coopsim/study/optimum/gap.py; `coopsim gap` shows it for one trace). The optimum is that of expected/gap.csv, proven
there, of one step in a counter; an arena needs no less. Left out are traces without proven optimum, and cells that
Foresight does not fit.
"""

import sys
from pathlib import Path

import pandas as pd

from coopsim.study.optimum.gap import planned_step
from coopsim.trace import Trace, load_trace
from coopsim.trace.measure import peak_bytes
from experiments.common import arguments
from experiments.common.pages import write_section

HERE = Path(__file__).parents[1]
EXPECTED = HERE / "expected" / "planned_gap.csv"
REAL = HERE.parent / "tests/data/gap"
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight")
ATTAINED = 0.05  #: points


def optima() -> pd.DataFrame:
    """trace, memory_ratio and the proven least overhead of a step."""
    table = pd.read_csv(HERE / "expected" / "gap.csv")
    return table[table.status == "optimal"].drop_duplicates(["trace", "memory_ratio"])


def trace_of(name: str) -> Trace:
    return load_trace(f"synth:{name}" if ":" in name else str(REAL / f"{name}.parquet"))


def main() -> None:
    rows = []
    for best in optima().itertuples():
        trace = trace_of(best.trace)
        budget = int(best.memory_ratio * peak_bytes(trace))
        found = {policy: planned_step(trace, policy, budget)[1] for policy in POLICIES}
        if found["foresight"] is not None:
            rows.append({"trace": best.trace, "memory_ratio": best.memory_ratio, "optimum": best.optimum} | found)
    table = pd.DataFrame(rows)
    table.to_csv(EXPECTED, index=False, float_format="%.6f")
    write_section("planned gaps", markdown(pd.read_csv(EXPECTED)))


def markdown(table: pd.DataFrame) -> str:
    """How often Foresight attains the optimum, and the sums where all fit."""
    attained = (100 * (table.foresight - table.optimum) < ATTAINED).sum()
    both = table[table[list(POLICIES)].notna().all(axis=1)]
    sums = (f"{abs(100 * (both[p] - both.optimum).sum()):.1f}" for p in POLICIES)
    lines = [f"| {len(both)} cells that all fit | {' | '.join(POLICIES)} |", "|---" * (1 + len(POLICIES)) + "|"]
    lines += [f"| points above the optimum, summed | {' | '.join(sums)} |", ""]
    lines.append(f"Foresight's planned step attains it in {attained} of {len(table)} cells, addresses included.")
    return "\n".join(lines)


if __name__ == "__main__":
    arguments.none(__doc__)
    sys.exit(main())
