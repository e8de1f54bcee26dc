"""How far planned steps are from the optimum with and without offload, on the small traces of gap.py.

    python -m experiments.optimum.gap_copies    writes expected/gap_copies.csv, its sums in docs/optimum.md; minutes

A step in 80 and 60 % of the peak, over two links: copying the peak to the host takes half the step's time or four
times the step. (Over PCIe 4 it is 0.4 to 0.7 steps on an RTX 3060 for BERT-Large, ResNet-50 and GPT-2, and 4 to 6 on
an A100.) Copies have no latency, which is longer than many an op of these traces. A planned step is the third of three
(planned_gap.py) of `foresight-offline`, whose first step needs no room for swapping on demand. The optimum with copies
is the lower bound of `coopsim gap`, which is attained where `status` is `optimal`; the one without is that of
expected/gap.csv.
"""

import sys

import pandas as pd

from coopsim.base.progress import progress
from coopsim.cards.link import Link
from coopsim.simulate.options import ReplayOptions
from coopsim.study import optimum
from coopsim.study.optimum.gap import planned_step
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from experiments.common import arguments
from experiments.common.pages import write_section
from experiments.figures.experiment import EXPECTED
from experiments.optimum.planned_gap import optima, trace_of

OUT = EXPECTED / "gap_copies.csv"
PLAIN, EITHER = "foresight-offline", "foresight-offline:lose=either"
STEPS = (0.5, 4.0)  # that copying the peak takes
FASTEST = 1_000_000  # MB/s, the most that a link may have
SECONDS = 20
ATTAINED = 0.05  # points


def link_for(trace: Trace, steps: float) -> Link:
    """Over which copying the peak takes so many steps, or more if no link is that fast."""
    rate = min(round(peak_bytes(trace) * 1000 / (steps * int(trace.cost_ns.sum()))), FASTEST)
    return Link(f"{steps:g} steps", rate, rate * 7 // 10, 0)


def measure(name: str, ratio: float, steps: float, seconds: float = SECONDS) -> dict[str, object]:
    """One trace in one budget over one link."""
    trace = trace_of(name)
    peak, link = peak_bytes(trace), link_for(trace, steps)
    budget, base = int(ratio * peak), int(trace.cost_ns.sum())
    found = optimum.gap_in(
        trace, budget, peak, [EITHER], seconds=seconds, options=optimum.options_for(trace, link=link)
    )
    _, plain = planned_step(trace, PLAIN, budget, ReplayOptions())
    return {
        "trace": name,
        "memory_ratio": ratio,
        "steps": round(link.alone_ns(peak) / base, 3),
        "status": found.optimum.status,
        "bound": found.optimum.bound,
        "lower_bound": found.optimum.lower_bound,
        "planned": found.rows[0].planned_overhead,
        "planned_plain": plain,
    }


def main() -> None:
    without = optima()[["trace", "memory_ratio", "optimum"]].to_dict("records")
    rows = []
    with progress("traces, budgets and links", len(without) * len(STEPS)) as tick:
        for cell in without:
            for steps in STEPS:
                row = measure(cell["trace"], cell["memory_ratio"], steps)
                rows.append(row | {"link": f"{steps:g} steps", "optimum_plain": cell["optimum"]})
                tick()
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.6f")
    write_section("gap copies", markdown(pd.read_csv(OUT)))


def markdown(table: pd.DataFrame) -> str:
    """By link: how many cells attain the optimum, and the points above it; cells where both ways fit."""
    head = ["copying the peak takes", "cells", "least overhead, with / without offload", "attained, with / without"]
    head += ["cells whose program was solved", "points above it there, with / without", "points in the others, at most"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    both = table[table.planned.notna() & table.planned_plain.notna()]
    for link, part in both.groupby("link", sort=False):
        above = 100 * (part.planned - part.lower_bound)
        plain = 100 * (part.planned_plain - part.optimum_plain)
        known = part.bound.isin(["exact", "base"]) | (part.status == "optimal")
        cells = [
            str(link),
            f"{len(part)}",
            f"{100 * (part.lower_bound - 1).sum():.1f} / {100 * (part.optimum_plain - 1).sum():.1f}",
            f"{(above < ATTAINED).sum()} / {(plain < ATTAINED).sum()}",
            f"{known.sum()}",
            f"{above[known].sum():.1f} / {plain[known].sum():.1f}",
            f"{above[~known].sum():.1f}" if (~known).any() else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    arguments.none(__doc__)
    sys.exit(main())
