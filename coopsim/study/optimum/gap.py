"""How far each policy is from the best possible: replays and the optimum, side by side.

What a step costs under a policy that plans, once it has a plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coopsim.base import budget
from coopsim.base.errors import of_type, several
from coopsim.base.progress import progress
from coopsim.base.types import GRANULE, Action, CoopsimError, OffloadState, Outcome
from coopsim.cards.link import Link
from coopsim.cards.link import find as find_link
from coopsim.simulate import policies
from coopsim.simulate.kernel.jit import note_if_cold
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import LEARNS, find, shown
from coopsim.simulate.replay import measure, record
from coopsim.study.optimum import highs
from coopsim.study.optimum.problem import Problem, problem_of
from coopsim.study.optimum.solve import Optimum, solve
from coopsim.trace import Trace, load_trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule

_USUAL = ReplayOptions()
_EITHER = ("coop:lose=either", "foresight:lose=either")


def planned_step(trace: Trace, policy: str, budget: int, options: ReplayOptions = _USUAL) -> tuple[str, float | None]:
    """How three iterations of the trace in one memory end, and the overhead of the third alone; None if one fails.

    options: their steps are not looked at. The third's cost is that of three less that of two, which are
    the same.
    """
    two, three = (
        measure(trace, policy, budget, options=replace(options, steps=k * trace.n_steps)) for k in (LEARNS, LEARNS + 1)
    )
    if three["outcome"] != Outcome.OK:
        return str(three["outcome"]), None
    return str(three["outcome"]), (three["total_cost_ns"] - two["total_cost_ns"]) / (int(trace.cost_ns.sum()) or 1)


@dataclass(frozen=True)
class GapRow:
    """One policy in one budget. overhead: None where the policy did not get through.

    planned: of a policy that plans, a step in an arena that goes by its plan; else both are None.
    """

    policy: str
    outcome: str
    overhead: float | None
    arena_outcome: str
    arena_overhead: float | None
    planned_outcome: str | None = None
    planned_overhead: float | None = None


@dataclass(frozen=True)
class Gap:
    """One budget: what the best possible is, or its bounds, and what each policy makes of the same bytes."""

    trace: str
    memory_ratio: float
    optimum: Optimum
    rows: list[GapRow] = field(default_factory=list)
    link: str | None = None  # what schedules may offload over

    def excess(self, overhead: float | None) -> tuple[float, float | None] | None:
        """Points above the optimum, and recomputation as a multiple of the least; above the bound if that is all.

        The multiple is None where the least recomputation is none.
        """
        if overhead is None:
            return None
        least = self.least - 1
        return overhead - self.least, (overhead - 1) / least if least > 0 else None

    @property
    def least(self) -> float:
        """The optimum as an overhead if it is proven, else the lower bound."""
        return self.optimum.lower_bound

    def as_dict(self) -> dict[str, Any]:
        o = self.optimum
        return {
            "trace": self.trace,
            "budget_bytes": o.budget_bytes,
            "memory_ratio": self.memory_ratio,
            "link": self.link,
            "status": o.status,
            "base_cost_ns": o.base_cost_ns,
            "cost_ns": o.cost_ns,
            "overhead": o.overhead,
            "lower_bound_ns": o.lower_bound_ns,
            "lower_bound": o.lower_bound,
            "bound": o.bound,
            "recomputes": len(o.runs) - o.n_ops if o.runs else None,
            "runs": list(o.runs),
            "seconds": round(o.seconds, 3),
            "policies": [self._row(row) for row in self.rows],
        }

    def _row(self, row: GapRow) -> dict[str, Any]:
        points, multiple = self.excess(row.overhead) or (None, None)
        planned, _ = self.excess(row.planned_overhead) or (None, None)
        return vars(row) | {"excess": points, "excess_ratio": multiple, "planned_excess": planned}


def options_for(
    trace: Trace, *, link: str | Link = "", host_memory: int | None = None, host_bandwidth: float | None = None
) -> ReplayOptions:
    """Those of a replay of one iteration of the trace."""
    return ReplayOptions(trace.n_steps, link=link, host_memory=host_memory, host_bandwidth=host_bandwidth)


def problem_for(trace: Trace, options: ReplayOptions, *, offloads: bool) -> Problem:
    """What is to be scheduled by these options. offloads: schedules may copy values to the host."""
    found = find_link(options.link, options.host_bandwidth, trace.header) if offloads else None
    return problem_of(trace, link=found, host_memory=options.host_memory)


def gap_in(
    trace: Trace,
    budget: int,
    peak: int,
    policies: Sequence[str],
    *,
    seconds: float = 60.0,
    options: ReplayOptions | None = None,
    problem: Problem | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Gap:
    """Replay the trace once under each policy, then close in on the optimum from the best of them.

    Under a policy that plans it is replayed again, for a step that goes by its plan. peak: what a memory ratio of 1 is.
    options: of options_for. problem: the trace's, if it is there already; if a policy offloads, it has copies. tick:
    called after each part of the work, one per policy and one for the optimum.
    """
    options = options or options_for(trace)
    offloads = any(find(policy).offloads for policy in policies)
    problem = problem or problem_for(trace, options, offloads=offloads)
    rows, known, costs = [], [], []
    called = shown(policies)
    for policy in policies:
        counter, arena = (_replay(trace, policy, kind, budget, options) for kind in ("counter", "arena"))
        for schedule in (counter, arena):
            if schedule is not None and schedule.header["outcome"] == "ok":
                costs.append(int(schedule.header["total_cost_ns"]))
                known.append(runs_of(schedule))
        planned = _planned(trace, policy, budget, options)
        rows.append(GapRow(called[policy], *_result(counter, problem), *_result(arena, problem), *planned))
        if planned[1] is not None:
            costs.append(round(planned[1] * problem.base_cost))
        tick()
    optimum = solve(problem, budget, seconds=seconds, known=known, costs=costs if offloads else ())
    tick()
    name = find_link(options.link, options.host_bandwidth, trace.header).name if offloads else None
    return Gap(trace.label, budget / peak, optimum, rows, name)


def runs_of(schedule: Schedule) -> list[int]:
    """The ops of a schedule of one iteration of the trace, in the order in which they run."""
    ran = (schedule.action == Action.COMPUTE) | (schedule.action == Action.RECOMPUTE)
    runs: list[int] = schedule.op[ran].tolist()
    return runs


def _replay(trace: Trace, policy: str, allocator: str, budget: int, options: ReplayOptions) -> Schedule | None:
    if allocator == "arena" and budget < GRANULE:  # not one block
        return None
    return record(trace, policy, budget, allocator, options)


def _planned(trace: Trace, policy: str, budget: int, options: ReplayOptions) -> tuple[str | None, float | None]:
    if not find(policy).plans or budget < GRANULE:
        return None, None
    try:
        return planned_step(trace, policy, budget, options)
    except CoopsimError:  # one iteration went through without complaint: the trace cannot be repeated
        return None, None


def _result(schedule: Schedule | None, problem: Problem) -> tuple[str, float | None]:
    if schedule is None:
        return "oom", None
    outcome = str(schedule.header["outcome"])
    return outcome, schedule.header["total_cost_ns"] / (problem.base_cost or 1) if outcome == "ok" else None


def gap(
    trace: Trace | str | Path,
    budgets: int | str | Sequence[int | str],
    policies: str | Sequence[str] | None = None,
    *,
    seconds: float = 60,
    link: str = "",
    host_memory: int | str | None = None,
    host_bandwidth: float | None = None,
) -> list[Gap]:
    """The least overhead of any schedule in each budget, and how far policies are from it: a Gap per budget.

    trace: a trace, or a name that `load` knows; exact for up to about a hundred ops. budgets: as of `sweep`, or bytes.
    policies: names (default: all; those that offload with a link). seconds: time for each budget's optimum. The rest is
    as of `replay`. A Gap has `optimum` (with `status` and `overhead`) and `rows`, and `as_dict()` is what `coopsim gap
    --json` prints. CoopsimError for invalid arguments, or without the solver (`pip install coopsim[optimum]`).
    """
    highs.solver()
    trace = trace if isinstance(trace, Trace) else load_trace(trace)
    of_type("seconds", float(seconds) if isinstance(seconds, int) else seconds, float, "the time for each budget")
    peak = peak_bytes(trace)
    sizes = budget.sizes(budgets, peak)
    names, offloads = _policies(policies, asked=bool(link or host_memory or host_bandwidth))
    memory = budget.parse(host_memory, None, "host_memory") if isinstance(host_memory, str) else host_memory
    options = options_for(trace, link=link, host_memory=memory, host_bandwidth=host_bandwidth)
    problem = problem_for(trace, options, offloads=offloads)
    note_if_cold()
    with progress("replays and optima", len(sizes) * (len(names) + 1)) as tick:
        return [
            gap_in(trace, nbytes, peak, names, seconds=seconds, options=options, problem=problem, tick=tick)
            for nbytes in sizes
        ]


def _policies(asked_for: str | Sequence[str] | None, *, asked: bool) -> tuple[list[str], bool]:
    """The policies to compare, and whether the optimum is of schedules that may offload."""
    if asked_for is not None:
        names = policies.split(asked_for) if isinstance(asked_for, str) else several(asked_for)
    elif asked:
        names = [*policies.names(), *_EITHER]
    else:
        names = [name for name in policies.names() if not policies.find(name).offloads]
    for name in names:
        if policies.find(name).offload_state == OffloadState.YES:
            raise CoopsimError(f"policy {name}: the optimum offloads no parameters and the like (offload_state=no)")
    offloads = any(policies.find(name).offloads for name in names)
    if asked and not offloads:
        raise CoopsimError("link, host_memory and host_bandwidth are of policies that offload: none is compared")
    return names, offloads
