"""Make a plan for a step that has been seen once, and run a replay whose steps follow plans."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.kernel.state import DECIDE, Array
from coopsim.policies import Policy
from coopsim.policies.coop import POLICY as COOP
from coopsim.replay.loop import run
from coopsim.replay.periodic.cut import Cut, decide_at, new_cut
from coopsim.replay.periodic.place import place
from coopsim.replay.periodic.rehearse import (
    NEED,
    Q_BYTES,
    Q_COLUMNS,
    Q_UNTIL,
    Q_VALUE,
    R_COST,
    R_COUNT,
    R_STAYS,
    Rehearsal,
    rehearsal,
    rehearse,
)
from coopsim.replay.periodic.select import Selection, keep_all, prune, select, selection
from coopsim.replay.program import NEVER, Program
from coopsim.trace.table import Trace
from coopsim.types import Phase

_TRIES = 12
_CLOSE = 0.0025  # of the step's cost: nearer to the least, another choice is not tried
_MOST_REHEARSALS = 40_000  # for one choice: where nearly nothing fits, most lead nowhere


@dataclass(frozen=True)
class Plan:
    """Decisions for all gaps, and for each request of the step, in order, its value and address."""

    gaps: Any
    until: Array
    requests: Array
    cost: int  # decision cost of the recomputations of a step
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them


def make(program: Program, budget: int, fixed: Array, *, in_place: bool) -> Plan | None:
    """A plan that fits into `budget` bytes with what is there at the start at the addresses `fixed`, or None."""
    R, S, C = rehearsal(program, in_place=in_place), selection(program), new_cut(program)
    target = budget
    with_cut = _choose(R, S, C, target)
    if with_cut is None:
        return None
    for _ in range(_TRIES):
        exact = replace(R, until=R.X[:, NEED].copy())
        rehearse(exact)
        logged = replace(exact, Q=np.zeros((int(R.K[R_STAYS]), Q_COLUMNS), np.int64))
        rehearse(logged)
        stays = logged.Q
        stays[stays[:, Q_UNTIL] < 0, Q_UNTIL] = NEVER
        at, above = place(stays, fixed, budget)
        if above <= 0:
            n = len(fixed)
            requests = np.stack([stays[n:, Q_VALUE], at[n:]], axis=1)
            height = int((at + stays[:, Q_BYTES]).max(initial=0))
            cost, peak = int(exact.K[R_COST]), int(exact.peak.max(initial=0))
            return Plan(R.gaps, exact.until, requests, cost, peak, height)
        target = min(target, int(exact.peak.max())) - max(min(above // 2, budget // 100), budget // 1000)
        if _begin(R, C, target, with_cut=with_cut) < 0 or not _make_fit(R, S, target):
            return None
    return None


def _choose(R: Rehearsal, S: Selection, C: Cut, budget: int) -> bool | None:
    """Decisions that fit into the budget, rehearsed. Whether they began with a cut; None if none are found.

    From what is cheapest at the moment at which most would be resident. If what the rest of the step then asks for
    takes the cost away from the least that there can be, the same is done from scratch, and the cheaper counts.
    """
    least = _begin(R, C, budget, with_cut=True)
    if least < 0:
        return None
    fits = _make_fit(R, S, budget)
    if fits and R.K[R_COST] - least <= _CLOSE * R.O[:, DECIDE].sum():
        return True
    gaps, cost = R.gaps.copy(), R.K[R_COST]
    _begin(R, C, budget, with_cut=False)
    if _make_fit(R, S, budget) and not (fits and cost <= R.K[R_COST]):
        return False
    R.gaps[:] = gaps
    rehearse(R)
    return True if fits else None


def _begin(R: Rehearsal, C: Cut, budget: int, *, with_cut: bool) -> float:
    """All values stay; with a cut, but for what is cheapest where they take most. The least that then can be."""
    keep_all(R)
    rehearse(R)
    return decide_at(R, C, int(R.peak.argmax()), budget) if with_cut else 0.0


def _make_fit(R: Rehearsal, S: Selection, budget: int) -> bool:
    """Drop values until the step fits, take back what is not needed, rehearse. False: it does not fit."""
    if select(R, S, budget, int(R.K[R_COUNT]) + _MOST_REHEARSALS) > 0:
        return False
    prune(R, S, budget)
    rehearse(R)
    return True


def second_try(policy: Policy) -> Policy:
    """As whom the first step begins anew if it ran out of memory: Coop, whose windows are smaller."""
    return replace(
        policy,
        cost=COOP.cost,
        divisor=COOP.divisor,
        recency=COOP.recency,
        search=COOP.search,
        placement=COOP.placement,
    )


class Planner:
    """Runs a replay: the first step as the policy does, the others by plan. Plans are kept for a second run."""

    def __init__(self, program: Program, budget: int, *, in_place: bool) -> None:
        self.program, self.budget, self.in_place = program, budget, in_place
        self.plans: dict[bytes, Plan | None] = {}
        self.seconds = 0.0
        self.lost_cost = 0

    def run(self, state: s.State, steps: int, overhead_limit: float) -> None:
        """Like loop.run."""
        run(state, 1, overhead_limit)
        for step in range(1, steps):
            if state.K[s.K_OUTCOME] != s.OK:
                return
            plan = self._plan_for(state)
            following = state
            if plan:
                following = replace(state, gaps=plan.gaps, until=plan.until, requests=plan.requests)
                state.K[s.K_REQUEST] = 0
            run(following, step + 1, overhead_limit)
            if plan and state.K[s.K_REQUEST] == len(plan.requests):
                state.K[s.K_PLANNED] += 1
            state.K[s.K_REQUEST] = -1

    def may_begin_anew(self, trace: Trace, state: s.State) -> bool:
        """Whether the first step ran out of memory before anything was updated for good; its cost is lost then."""
        updating = state.K[s.K_OP] >= 0 and trace.phase[int(state.K[s.K_NOW])] == Phase.OPTIMIZER
        if state.K[s.K_OUTCOME] != s.OOM or state.K[s.K_STEP] > 0 or updating:
            return False
        self.lost_cost = int(state.K[s.K_TOTAL])
        return True

    def _plan_for(self, state: s.State) -> Plan | None:
        pieces = state.V[state.initial, s.PIECE]
        if (pieces < 0).any():
            return None
        fixed = state.P[pieces, s.ADDRESS]
        key = fixed.tobytes()
        if key not in self.plans:
            started = time.perf_counter()
            self.plans[key] = make(self.program, self.budget, fixed, in_place=self.in_place)
            self.seconds += time.perf_counter() - started
        return self.plans[key]

    def header(self, state: s.State) -> dict[str, Any]:
        """Steps that went by plan to their end, the last plan's figures, the cost of a first step that began anew.

        Planning time is wall-clock.
        """
        made = [plan for plan in self.plans.values() if plan]
        figures = {"plan_peak_bytes": made[-1].peak, "plan_height_bytes": made[-1].height} if made else {}
        return figures | {
            "planned_steps": int(state.K[s.K_PLANNED]),
            "planning_ns": round(self.seconds * 1e9),
            "lost_cost_ns": self.lost_cost,
        }
