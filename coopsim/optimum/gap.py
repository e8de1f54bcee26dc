"""How far each policy is from the best possible: replays and the optimum, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coopsim.optimum.planned import planned_step
from coopsim.optimum.problem import Problem, problem_of
from coopsim.optimum.solve import Optimum, solve
from coopsim.options import ReplayOptions
from coopsim.policies import find, shown
from coopsim.replay import record
from coopsim.schedule import Schedule
from coopsim.trace.table import Trace
from coopsim.types import Action, CoopsimError, RandomOps

GRANULE = 512  #: bytes of the smallest block of an arena


@dataclass(frozen=True)
class Row:
    """One policy in one budget. overhead: None where the policy did not get through.

    planned: of a policy that plans, a step in an arena that goes by its plan (planned.py); else both are None.
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
    rows: list[Row] = field(default_factory=list)

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

    def _row(self, row: Row) -> dict[str, Any]:
        points, multiple = self.excess(row.overhead) or (None, None)
        planned, _ = self.excess(row.planned_overhead) or (None, None)
        return vars(row) | {"excess": points, "excess_ratio": multiple, "planned_excess": planned}


def gap(
    trace: Trace,
    budget: int,
    peak: int,
    policies: Sequence[str],
    *,
    seconds: float = 60.0,
    keep_random: bool = False,
    problem: Problem | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Gap:
    """Replay the trace once under each policy, then close in on the optimum from the best of them.

    Under a policy that plans it is replayed again, for a step that goes by its plan. peak: what a memory ratio of 1 is.
    problem: the trace's, if it is there already. tick: called after each part of the work, one per policy and one for
    the optimum.
    """
    problem = problem or problem_of(trace, keep_random=keep_random)
    rows, known = [], []
    called = shown(policies)
    for policy in policies:
        counter, arena = (_replay(trace, policy, kind, budget, keep_random) for kind in ("counter", "arena"))
        known += [runs_of(s) for s in (counter, arena) if s is not None and s.header["outcome"] == "ok"]
        planned = _planned(trace, policy, budget, keep_random)
        rows.append(Row(called[policy], *_result(counter, problem), *_result(arena, problem), *planned))
        tick()
    optimum = solve(problem, budget, seconds=seconds, known=known)
    tick()
    return Gap(trace.label, budget / peak, optimum, rows)


def runs_of(schedule: Schedule) -> list[int]:
    """The ops of a schedule of one iteration of the trace, in the order in which they run."""
    ran = (schedule.action == Action.COMPUTE) | (schedule.action == Action.RECOMPUTE)
    runs: list[int] = schedule.op[ran].tolist()
    return runs


def _replay(trace: Trace, policy: str, allocator: str, budget: int, keep_random: bool) -> Schedule | None:
    if allocator == "arena" and budget < GRANULE:  # not one block
        return None
    return record(trace, policy, budget, allocator, _options(trace, keep_random))


def _options(trace: Trace, keep_random: bool) -> ReplayOptions:
    return ReplayOptions(trace.n_steps, random=RandomOps.KEEP if keep_random else RandomOps.RECOMPUTE)


def _planned(trace: Trace, policy: str, budget: int, keep_random: bool) -> tuple[str | None, float | None]:
    if not find(policy).plans or budget < GRANULE:
        return None, None
    try:
        return planned_step(trace, policy, budget, _options(trace, keep_random))
    except CoopsimError:  # one iteration went through without complaint: the trace cannot be repeated
        return None, None


def _result(schedule: Schedule | None, problem: Problem) -> tuple[str, float | None]:
    if schedule is None:
        return "oom", None
    outcome = str(schedule.header["outcome"])
    return outcome, schedule.header["total_cost_ns"] / (problem.base_cost or 1) if outcome == "ok" else None
