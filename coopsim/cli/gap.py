"""coopsim gap T --budget B,B: the least overhead of any schedule in a budget, and how far each policy is from it."""

import argparse
import json
from typing import Any

from coopsim.base.text import human, table

_STATUS = {
    "feasible": "not proven: the best schedule found costs {overhead}, none less than {lower}",
    "bounded": "no schedule found; none costs less than {lower}",
    "infeasible": "nothing fits: proven for every schedule",
}
_BOUND = {
    "exact": "bound of the mixed-integer program",
    "solver": "bound of the solver when the time was up",
    "relaxation": "bound of the relaxed program",
    "cut": "bound of the cut",
    "knapsack": "bound of the knapsack",
    "base": "every op once",
}


def run(args: argparse.Namespace) -> int:
    from coopsim.base import budget
    from coopsim.study.optimum import highs
    from coopsim.study.optimum.gap import gap
    from coopsim.trace import load_trace
    from coopsim.trace.measure import peak_bytes

    highs.solver()
    trace = load_trace(args.trace)
    peak = peak_bytes(trace)
    gaps = gap(
        trace,
        [budget.parse(text, peak, "--budget") for text in budget.parse_list(args.budget)],
        args.policy,
        seconds=args.time_limit,
        link=args.link or "",
        host_memory=budget.parse(args.host_memory, None, "--host-memory") if args.host_memory else None,
        host_bandwidth=args.host_bandwidth,
    )
    if args.json:
        print(json.dumps([g.as_dict() for g in gaps], indent=1))
    else:
        print("\n\n".join(describe(g) for g in gaps))
    return 0


def describe(g: Any) -> str:
    """Return a line on the optimum for one budget, and a table of the policies."""
    o = g.optimum
    over = f", offload over {g.link}" if g.link else ""
    head = f"{g.trace} in {human(o.budget_bytes)}, {g.memory_ratio:.1%} of the peak without eviction{over}: "
    if o.status == "optimal":
        head += f"least overhead {_x(o.overhead)}"
        head += f", {len(o.runs) - o.n_ops} ops run again" if o.runs else ", that of a policy"
    else:
        head += _STATUS[o.status].format(overhead=_x(o.overhead), lower=f"{_x(o.lower_bound)} ({_BOUND[o.bound]})")
    if o.status == "infeasible":
        return head
    least = "least" if o.status == "optimal" else "bound"
    rows, planned = [], []
    for row in g.rows:
        excess = _excess(g.excess(row.overhead), least)
        arena = _x(row.arena_overhead, row.arena_outcome)
        rows.append([row.policy, _x(row.overhead, row.outcome), *excess, arena])
        if row.planned_outcome is not None:
            planned.append(f"{row.policy}, planned")
            overhead = _x(row.planned_overhead, row.planned_outcome)
            rows.append([planned[-1], overhead, *_excess(g.excess(row.planned_overhead), least), overhead])
    above = "optimum" if o.status == "optimal" else "bound"
    found = f"{head}\n{table(['policy', 'overhead', f'above {above}', 'recomputation', 'in arena'], rows)}"
    return found + "".join(f"\n{name}: the third of three steps in one arena" for name in planned)


def _x(overhead: float | None, otherwise: str = "-") -> str:
    return otherwise if overhead is None else f"{100 * (overhead - 1):.2f} %"


def _excess(excess: tuple[float, float | None] | None, least: str) -> list[str]:
    if excess is None:
        return ["-", "-"]
    points, multiple = excess
    return [f"{100 * points:.2f} points", "-" if multiple is None else f"{multiple:.2f} times the {least}"]
