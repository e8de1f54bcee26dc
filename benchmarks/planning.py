"""`python benchmarks/planning.py [shipped | long]`: how long Foresight takes to plan a step, and how that grows.

shipped: the committed traces whose step repeats, at 21 budgets from 0.9 to 0.3 of the peak; each is planned five times,
the shortest time counts (wall-clock, one core), also where no plan is found. A plan is paid for when the recomputations
that it saves, against the second step of Thrift, have taken as long as it took to make. `empty` is what the addresses
cost: the share of the budget that a plan which recomputes something leaves empty at its fullest moment. Writes
results/planning.csv, and what it comes to in benchmarks/README.md.

long: synthetic steps of 5,500 to a million ops, in half of their peak, a process for each: its processor time from the
trace to the replayed step, compiled code loaded before, and its largest memory, the trace included; beside a replay
under Coop. The exponent is the slope of a line through the logarithms of ops and times. Writes results/long_steps.csv,
the table of benchmarks/README.md and its figure.
"""

import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent.parent))

from coopsim.base.files import replacing
from coopsim.base.progress import progress
from coopsim.base.types import Action
from coopsim.simulate.replay import replay
from coopsim.study.figures import style
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import MIB, accumulated, chain, rnn, unet
from experiments.common import arguments
from experiments.common.pages import wrapped, write_section

HERE = Path(__file__).parent
GRANULE = 512
STEPS = 10  # of a run, as in all tables of the page
BUDGETS = [ratio + d for ratio in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3) for d in (-0.01, 0.0, 0.01)]
RESULTS = HERE / "results" / "planning.csv"
LONG_RESULTS = HERE / "results" / "long_steps.csv"
FIGURE = HERE.parent / "docs" / "images" / "long-steps.png"
OPS = [5_500, 50_000, 500_000, 1_000_000]
_MOST = {"foresight-offline": 500_000, "coop": 50_000}  # ops, but for steps of few resident blocks: micro-batches
POLICIES = {"foresight-offline": "Foresight, plan and replay", "coop": "Coop, replay"}

#: A step of about so many ops, each of its kind.
KINDS: dict[str, Callable[[int], Trace]] = {
    "micro-batches": lambda ops: accumulated(ops // 95),
    "transformer": lambda ops: accumulated(1, blocks=ops // 23),
    "chain": lambda ops: chain(ops // 2),
    "RNN": lambda ops: rnn(ops // 8),
    "U-Net": lambda ops: unet(ops // 9, least=MIB),
}


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


def shipped_rows(files: list[Path]) -> list[dict[str, Any]]:
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


def shipped_markdown(table: pd.DataFrame) -> str:
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


def one(kind: str, ops: int, policy: str) -> str:
    """A line of the table: ops, seconds, MiB, overhead, and whether all went as it should."""
    for warm in (chain(8), accumulated(2), chain(9_000)):
        replay(warm, policy, peak_bytes(warm, GRANULE) // 2, steps=1)
    trace = KINDS[kind](ops)
    budget = peak_bytes(trace, GRANULE) // 2
    began = time.process_time()
    header = replay(trace, policy, budget, steps=1).header
    seconds = time.process_time() - began
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ok = header["outcome"] == "ok" and (policy == "coop" or header["planned_steps"] == 1)
    overhead = header["recompute_cost_ns"] / int(trace.cost_ns.sum())
    return f"{kind},{policy},{trace.n_ops},{seconds:.3f},{mib:.0f},{overhead:.4f},{ok}"


def measured() -> pd.DataFrame:
    """All of them, each in a process of its own."""
    rows = []
    cases = [(kind, ops, policy) for kind in KINDS for ops in OPS for policy in POLICIES]
    cases = [case for case in cases if case[0] == "micro-batches" or case[1] <= _MOST[case[2]]]
    with progress("steps", len(cases)) as tick:
        for kind, ops, policy in cases:
            command = [sys.executable, __file__, kind, str(ops), policy]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            rows.append(done.stdout.split(","))
            tick()
    table = pd.DataFrame(rows, columns=["kind", "policy", "ops", "seconds", "mib", "overhead", "ok"])
    if (table.ok != "True").any():
        raise SystemExit(f"not replayed, or without a plan:\n{table[table.ok != 'True']}")
    return table.astype({"ops": int, "seconds": float, "mib": float, "overhead": float})


def nearest(ops: int) -> int:
    """The size that was asked for."""
    return min(OPS, key=lambda n: abs(n - ops))


def exponent(rows: Any) -> float:
    return float(np.polyfit(np.log(rows.ops), np.log(rows.seconds), 1)[0])


def long_markdown(table: pd.DataFrame) -> str:
    lines = [
        "| step | policy | " + " | ".join(f"{n:,}" for n in OPS) + " | exponent | MiB of the longest | overhead |",
        "| --- | --- |" + " --- |" * (len(OPS) + 3),
    ]
    for kind in KINDS:
        for policy, label in POLICIES.items():
            rows = table[(table.kind == kind) & (table.policy == policy)]
            by_size = dict(zip(rows.ops.map(nearest), rows.seconds, strict=True))
            times = " | ".join(f"{by_size[n]:.2f}" if n in by_size else "" for n in OPS)
            last = rows.iloc[-1]
            lines.append(
                f"| {kind} | {label} | {times} | {exponent(rows):.2f} | {last.mib:,.0f} | {last.overhead:.1%} |"
            )
    return "\n".join(lines)


def draw(table: pd.DataFrame) -> None:
    """Seconds by ops, a panel for each kind of step."""
    from matplotlib.figure import Figure

    looks = style.policies(list(POLICIES))
    with style.applied("column"):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained", dpi=150)
        panels = figure.subplots(1, len(KINDS), sharex=True, sharey=True)
        for axes, kind in zip(panels, KINDS, strict=True):
            for policy, label in POLICIES.items():
                rows = table[(table.kind == kind) & (table.policy == policy)]
                look = {"color": looks[policy].color, "marker": looks[policy].marker}
                axes.plot(rows.ops, rows.seconds, label=label, **look)
            axes.set(xscale="log", yscale="log", title=kind)
            axes.grid()
        panels[0].set_ylabel("processor time [s]")
        panels[len(panels) // 2].set_xlabel("ops in the step")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        with replacing(FIGURE) as new:
            figure.savefig(new, format="png", metadata={"Software": None})


def shipped() -> None:
    """Measure the committed traces; write the table and what it comes to."""
    table = pd.DataFrame(shipped_rows(sorted((HERE.parent / "traces").glob("*.parquet"))))
    table.to_csv(RESULTS, index=False, float_format="%.5f")
    write_section("planning", shipped_markdown(table))
    print(shipped_markdown(table))


def long() -> None:
    """Measure long steps; write the table, what the page shows of it, and the figure."""
    table = measured()
    with replacing(LONG_RESULTS) as part:
        table.to_csv(part, index=False)
    write_section("long steps", long_markdown(table))
    draw(table)
    print(long_markdown(table))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(one(sys.argv[1], int(sys.argv[2]), sys.argv[3]), end="")
    else:
        parser = arguments.parser(__doc__)
        parser.add_argument("part", nargs="?", choices=["shipped", "long"])
        part = parser.parse_args().part
        for measure in (shipped, long):
            if part in (None, measure.__name__):
                measure()
