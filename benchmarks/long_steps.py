"""`python benchmarks/long_steps.py`: how the time and memory of a plan grow with a step, beside a replay under Coop.

Synthetic steps of 5,500 to 500,000 ops, in half of their peak, a process for each: its processor time from the trace to
the replayed step, compiled code loaded before, and its largest memory. The exponent is the slope of a line through the
logarithms of ops and times. Writes results/long_steps.csv, the table of benchmarks/README.md and its figure.
"""

import resource
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
from coopsim.simulate.replay import replay
from coopsim.study.figures import style
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import MIB, accumulated, chain, rnn, unet
from experiments.common.pages import write_section

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "long_steps.csv"
FIGURE = HERE.parent / "docs" / "images" / "long-steps.png"
OPS = [5_500, 50_000, 500_000]
_COOP = 50_000  # ops, beyond which only micro-batches are replayed under Coop: it takes the square of them elsewhere
POLICIES = {"foresight-offline": "Foresight, plan and replay", "coop": "Coop, replay"}


STEPS: dict[str, Callable[[int], Trace]] = {
    "micro-batches": lambda ops: accumulated(ops // 101),
    "transformer": lambda ops: accumulated(1, blocks=ops // 20),
    "chain": lambda ops: chain(ops // 2),
    "RNN": lambda ops: rnn(ops // 8),
    "U-Net": lambda ops: unet(ops // 9, least=MIB),
}


def one(kind: str, ops: int, policy: str) -> str:
    """A line of the table: ops, seconds, MiB, blocks or ops looked at, and whether all went as it should."""
    for warm in (chain(8), accumulated(2)):
        replay(warm, policy, peak_bytes(warm, 512) // 2, steps=1)
    trace = STEPS[kind](ops)
    budget = peak_bytes(trace, 512) // 2
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
    with progress("steps", len(STEPS) * len(OPS) * len(POLICIES)) as tick:
        for kind in STEPS:
            for ops in OPS:
                for policy in POLICIES:
                    if policy == "coop" and ops > _COOP and kind != "micro-batches":
                        continue
                    command = [sys.executable, __file__, kind, str(ops), policy]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                    rows.append(done.stdout.split(","))
                    tick()
    table = pd.DataFrame(rows, columns=["kind", "policy", "ops", "seconds", "mib", "overhead", "ok"])
    return table.astype({"ops": int, "seconds": float, "mib": float, "overhead": float})


def nearest(ops: int) -> int:
    """The size that was asked for."""
    return min(OPS, key=lambda n: abs(n - ops))


def exponent(rows: Any) -> float:
    return float(np.polyfit(np.log(rows.ops), np.log(rows.seconds), 1)[0])


def markdown(table: pd.DataFrame) -> str:
    lines = [
        "| step | policy | " + " | ".join(f"{n:,}" for n in OPS) + " | exponent | MiB of the longest | overhead |",
        "| --- | --- |" + " --- |" * (len(OPS) + 3),
    ]
    for kind in STEPS:
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
        panels = figure.subplots(1, len(STEPS), sharex=True, sharey=True)
        for axes, kind in zip(panels, STEPS, strict=True):
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


def publish(table: pd.DataFrame) -> None:
    """Write the table, what the page shows of it, and the figure."""
    with replacing(RESULTS) as part:
        table.to_csv(part, index=False)
    write_section("long steps", markdown(table))
    draw(table)
    print(markdown(table))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(one(sys.argv[1], int(sys.argv[2]), sys.argv[3]), end="")
    else:
        publish(measured())
