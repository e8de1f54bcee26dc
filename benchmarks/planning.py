"""`python benchmarks/planning.py`: how long Foresight takes to plan a step, and after how many steps that is paid for.

The committed traces whose step repeats, at 21 budgets from 0.9 to 0.3 of the peak; each is planned five times, the
shortest time counts (wall-clock, one core), also where no plan is found. A plan is paid for when the recomputations
that it saves, against the second step of Thrift, have taken as long as it took to make. `empty` is what the addresses
cost: the share of the budget that a plan which recomputes something leaves empty at its fullest moment. Writes
results/planning.csv, and what it comes to in benchmarks/README.md.
"""

import math
import statistics
import sys
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent.parent))

from coopsim.base.progress import progress
from coopsim.base.types import Action
from coopsim.simulate.replay import replay
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from experiments.common import arguments
from experiments.common.pages import wrapped, write_section

HERE = Path(__file__).parent
GRANULE = 512
STEPS = 10  # of a run, as in all tables of the page
BUDGETS = [ratio + d for ratio in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3) for d in (-0.01, 0.0, 0.01)]
RESULTS = HERE / "results" / "planning.csv"


def recomputed(schedule: Schedule, trace: Trace) -> float:
    """Seconds of recomputation in the second step."""
    again = (schedule.step == 1) & (schedule.action == Action.RECOMPUTE)
    return float(trace.cost_ns[schedule.op[again]].sum()) / 1e9


def planned(trace: Trace, budget: int) -> dict[str, Any] | None:
    """The figures of the attempt, None if no first step fits; the time is the shortest of five."""
    schedules = [replay(trace, "foresight", budget, steps=2) for _ in range(5)]
    one = schedules[0]
    seconds = min(s.header["planning_ns"] for s in schedules) / 1e9
    if not seconds:
        return None
    if not one.header["planned_steps"]:
        return {"found": False, "seconds": seconds, "paid": None, "empty": 0.0}
    spent = recomputed(one, trace)
    saved = recomputed(replay(trace, "thrift", budget, steps=2), trace) - spent
    return {
        "found": True,
        "seconds": seconds,
        "paid": seconds / saved if saved > 0 else None,
        "empty": 1 - one.header["plan_peak_bytes"] / budget if spent else 0.0,
    }


def rows(files: list[Path]) -> list[dict[str, Any]]:
    """A row a model: seconds of a step, of the quickest, the median and the slowest attempt; those above a step."""
    found = []
    with progress("models", len(files)) as tick:
        for file in files:
            trace = load(file)
            if trace.n_steps == 1:
                peak = peak_bytes(trace, GRANULE)
                plans = [plan for ratio in BUDGETS if (plan := planned(trace, int(ratio * peak)))]
                seconds = [plan["seconds"] for plan in plans]
                paid = [plan["paid"] for plan in plans if plan["paid"] is not None]
                step = int(trace.cost_ns.sum()) / 1e9
                found.append(
                    {
                        "trace": trace.label,
                        "step_s": step,
                        "least_s": min(seconds),
                        "median_s": statistics.median(seconds),
                        "most_s": max(seconds),
                        "attempts": len(plans),
                        "plans": sum(plan["found"] for plan in plans),
                        "longer": sum(s > step for s in seconds),
                        "paid_median": statistics.median(paid),
                        "paid_most": max(paid),
                        "saving": len(paid),
                        "empty": max(plan["empty"] for plan in plans),
                    }
                )
            tick()
    return found


def markdown(table: pd.DataFrame) -> str:
    """What the table comes to."""
    empty = table["empty"]
    longest, emptiest = (table.most_s / table.step_s).idxmax(), empty.idxmax()
    steps = table.most_s[longest] / table.step_s[longest]
    medians = (f"{of.min():.0f} to {of.max():.0f}" for of in (1000 * table.median_s, table.paid_median.map(math.ceil)))
    ms, paid = medians
    return wrapped(
        "\n".join(
            [
                f"- A plan is found in {table.plans.sum()} of {table.attempts.sum()} tries. By trace the median over "
                f"budgets takes {ms} ms; the longest {1000 * table.most_s.max():.0f} ms.",
                f"- Planning takes longer than a step {table.longer.sum()} times, at most {steps:.1f} steps "
                f"({table.trace[longest]}): {steps / STEPS:.2f} of a step for each of a run of {STEPS}.",
                f"- The recomputations that a plan saves against a step of Thrift pay for it after {paid} steps in "
                f"the median, {math.ceil(table.paid_most.max())} at most, where next to nothing can be saved.",
                f"- At its peak a plan leaves at most {empty[emptiest]:.2%} of the budget empty "
                f"({table.trace[emptiest]}), elsewhere at most {empty.drop(emptiest).max():.2%}.",
            ]
        )
    )


def main() -> None:
    table = pd.DataFrame(rows(sorted((HERE.parent / "traces").glob("*.parquet"))))
    table.to_csv(RESULTS, index=False, float_format="%.5f")
    write_section("planning", markdown(table))
    print(markdown(table))


if __name__ == "__main__":
    arguments.none(__doc__)
    main()
