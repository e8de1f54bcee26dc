"""Make a plan for a step that has been seen once, and run a replay whose steps follow plans."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.kernel.state import DECIDE, Array
from coopsim.policies import Policy
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
from coopsim.replay.periodic.tries import for_first_step, for_later_steps
from coopsim.replay.program import NEVER, Program
from coopsim.trace.table import Trace
from coopsim.types import InPlace, Phase

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


class Planner:
    """Runs a replay: the first step as the policy does, the others by plan if the trace has but one step to repeat.

    A step that runs out of memory begins anew with other choices (tries.py), and those after it go on with them. All
    is then run again from the start, which comes to the same; plans are kept for that.
    """

    def __init__(self, trace: Trace, program: Program, policy: Policy, budget: int) -> None:
        self.trace, self.program, self.policy, self.budget = trace, program, policy, budget
        self.plans: dict[bytes, Plan | None] = {}
        self.seconds = 0.0
        self.lost_cost = 0
        self._begun_anew: list[int] = []  # steps, one as often as it has
        self._before = 0  # the cost of all before the step that runs

    def policy_for(self, step: int) -> Policy:
        """Whose choices the step goes by."""
        first = for_first_step(self.policy)[self._begun_anew.count(0)]
        later = sum(0 < k <= step for k in self._begun_anew)
        return for_later_steps(first)[later % 4] if later else first

    def run(self, state: s.State, steps: int, overhead_limit: float, choice: Callable[[Policy], Array]) -> None:
        """Like loop.run. choice: a policy as kernels know it."""
        for step in range(steps):
            self._before = int(state.K[s.K_TOTAL])
            state.choice[:] = choice(self.policy_for(step))
            plan = self._plan_for(state) if step > 0 and self.trace.n_steps == 1 else None
            following = state
            if plan:
                following = replace(state, gaps=plan.gaps, until=plan.until, requests=plan.requests)
                state.K[s.K_REQUEST] = 0
            run(following, step + 1, overhead_limit)
            if state.K[s.K_OUTCOME] != s.OK:
                return
            if plan and state.K[s.K_REQUEST] == len(plan.requests):
                state.K[s.K_PLANNED] += 1
            state.K[s.K_REQUEST] = -1

    def begins_anew(self, state: s.State) -> bool:
        """Whether all is to run again because a step has run out of memory and there are choices left to try it with.

        Not if it may have updated parameters. What the step had cost is lost.
        """
        step = int(state.K[s.K_STEP])
        tries = len(for_later_steps(self.policy) if step else for_first_step(self.policy))
        updating = state.K[s.K_OP] >= 0 and self.trace.phase[int(state.K[s.K_NOW])] == Phase.OPTIMIZER
        if state.K[s.K_OUTCOME] != s.OOM or updating or self._begun_anew.count(step) + 1 == tries:
            return False
        self._begun_anew.append(step)
        self.lost_cost += int(state.K[s.K_TOTAL]) - self._before
        return True

    def _plan_for(self, state: s.State) -> Plan | None:
        pieces = state.V[state.initial, s.PIECE]
        if (pieces < 0).any():
            return None
        fixed = state.P[pieces, s.ADDRESS]
        key = fixed.tobytes()
        if key not in self.plans:
            in_place = self.policy.in_place == InPlace.RECOMPUTABLE
            started = time.perf_counter()
            self.plans[key] = make(self.program, self.budget, fixed, in_place=in_place)
            self.seconds += time.perf_counter() - started
        return self.plans[key]

    def header(self, state: s.State) -> dict[str, Any]:
        """Steps that went by plan to their end, the last plan's figures, the cost of steps that began anew.

        Planning time is wall-clock.
        """
        made = [plan for plan in self.plans.values() if plan]
        figures = {"plan_peak_bytes": made[-1].peak, "plan_height_bytes": made[-1].height} if made else {}
        return figures | {
            "planned_steps": int(state.K[s.K_PLANNED]),
            "planning_ns": round(self.seconds * 1e9),
            "lost_cost_ns": self.lost_cost,
        }
