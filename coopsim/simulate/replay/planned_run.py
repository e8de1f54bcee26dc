"""Run a replay whose iterations follow plans, and begin anew where one runs out of memory.

A step that runs out of memory before it has updated anything begins anew with other choices: which budgets a policy
fits is chance where memory is short, as one value in the way decides.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from coopsim.base.types import Phase, Placement, Planning, Search
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.away import USED_FIRST
from coopsim.simulate.planning.make import make
from coopsim.simulate.planning.request import Copying, IterationStart, PlanRequest, ResidencyPlan, offloadable
from coopsim.simulate.policies import Policy
from coopsim.simulate.policies.coop import POLICY as COOP
from coopsim.simulate.replay.host import wait
from coopsim.simulate.replay.loop import run
from coopsim.simulate.replay.plan import leave_plan


def for_first_step(policy: Policy) -> list[Policy]:
    """As itself, as Coop, and with other windows and another placement."""
    coop = replace(
        policy, cost=COOP.cost, divisor=COOP.divisor, recency=COOP.recency, search=COOP.search, placement=COOP.placement
    )
    return [policy, coop, *for_later_steps(policy)[1:]]


def for_later_steps(policy: Policy) -> list[Policy]:
    """As it is, and with other windows, another placement, or both; the cost that it goes by is the same."""
    search = Search.WINDOW if policy.search != Search.WINDOW else Search.WINDOW_THRIFTY
    placement = Placement.TWO_ENDED if policy.placement != Placement.TWO_ENDED else Placement.PREFERRED
    return [
        policy,
        replace(policy, search=search),
        replace(policy, placement=placement),
        replace(policy, search=search, placement=placement),
    ]


class PlannedRun:
    """Runs a replay, iteration by iteration as planned: offline every one, else the repetitions of a trace of one step.

    A step that runs out of memory begins anew with other choices, and those after it go on with them. All
    is then run again from the start, which comes to the same; plans are kept for that.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.trace, self.program, self.policy = request.trace, request.program, request.policy
        self.plans: dict[bytes, ResidencyPlan | None] = {}
        self.seconds = 0.0
        self.lost_cost = 0
        self._begun_anew: list[int] = []  # steps, one as often as it has
        self._before = 0  # the cost of all before the step that runs

    def policy_for(self, step: int) -> Policy:
        """Whose choices the step goes by."""
        first = for_first_step(self.policy)[self._begun_anew.count(0)]
        later = sum(0 < k <= step for k in self._begun_anew)
        choices = for_later_steps(first)
        return choices[later % len(choices)]

    def run(self, state: s.State, steps: int, overhead_limit: float, choice: Callable[[Policy], s.Array]) -> None:
        """Like loop.run. choice: a policy as kernels know it."""
        state = self._without_absent(state)
        run(state, 0, overhead_limit)  # what is there at the start is placed
        following = state
        for step in range(steps):
            if state.K[s.K_OUTCOME] != codes.OUTCOME_OK:
                return
            self._before = int(state.K[s.K_TOTAL])
            state.choice[:] = choice(self.policy_for(step))
            if step % self.trace.n_steps == 0:
                following = self._begin_iteration(state, step)
            run(following, step + 1, overhead_limit)
            if state.K[s.K_OUTCOME] == codes.OUTCOME_OK and state.K[s.K_REQUEST] >= 0:
                state.K[s.K_PLANNED_STEPS] += 1
            if self.request.away:
                wait(state, state.K[s.K_OUT_FREE])  # as the next iteration finds it on the host

    def _absent(self) -> s.Array:
        """The values that only the host has at the start."""
        initial = self.program.initial
        return initial[np.isin(self.program.storage[initial], list(self.request.away))]

    def _without_absent(self, state: s.State) -> s.State:
        absent = self._absent()
        state.V[absent, s.BLOCK], state.V[absent, s.LIVE] = s.ON_HOST, 1
        if len(absent):
            state.copies[absent, s.HOST_AT] = 0
            state.K[s.K_HOST_USED] = state.K[s.K_HOST_PEAK] = state.V[absent, s.BYTES].sum()
        return replace(state, initial=state.initial[~np.isin(state.initial, absent)])

    def _begin_iteration(self, state: s.State, step: int) -> s.State:
        """The state, with the plan for the iteration that begins, if there is one."""
        plan = self._plan_for(state) if self._is_known(step) else None
        if plan is None:
            leave_plan(state)
            return state
        state.K[s.K_REQUEST] = state.K[s.K_HOLES] = 0
        state.K[s.K_AWAY] = state.K[s.K_LEFT] = 0
        state.copies[:, s.LEAVES] = 0
        return replace(
            state,
            decisions=plan.decisions,
            until=plan.until,
            requests=plan.requests,
            below=plan.below,
            blocks=np.append(state.V[state.initial, s.BLOCK], np.zeros(len(plan.requests), np.int64)),
            away=plan.away,
        )

    def _is_known(self, step: int) -> bool:
        """Whether the steps of the iteration that begins are known: from the trace, or from the one before."""
        return self.policy.planning == Planning.OFFLINE or (self.trace.n_steps == 1 and step > 0)

    def begins_anew(self, state: s.State) -> bool:
        """Whether all is to run again because a step has run out of memory and there are choices left to try it with.

        Not if it may have updated parameters. What the step had cost is lost.
        """
        step = int(state.K[s.K_STEP])
        tries = len(for_later_steps(self.policy) if step else for_first_step(self.policy))
        out_of_memory = state.K[s.K_OUTCOME] == codes.OUTCOME_OOM
        if not out_of_memory or self._may_have_updated(state) or self._begun_anew.count(step) + 1 == tries:
            return False
        self._begun_anew.append(step)
        self.lost_cost += int(state.K[s.K_TOTAL]) - self._before
        return True

    def _may_have_updated(self, state: s.State) -> bool:
        """Whether an op of the optimizer has been served in this step, or is."""
        if state.K[s.K_OP] < 0:
            return False
        now = int(state.K[s.K_NOW])
        of_step = range(int(self.trace.step.searchsorted(self.trace.step[now])), now + 1)
        return any(self.trace.phase[op] == Phase.OPTIMIZER for op in of_step)

    def _plan_for(self, state: s.State) -> ResidencyPlan | None:
        blocks = state.V[state.initial, s.BLOCK]
        if (blocks < 0).any():
            return None
        placed = state.P[blocks, s.ADDRESS]
        copying = self._copying(state)
        key = placed.tobytes()
        if copying is not None:
            key += copying.rows[:, s.HOST_AT].tobytes() + bytes(f"{copying.out_busy} {copying.in_busy}", "ascii")
        if key not in self.plans:
            started = time.perf_counter()
            self.plans[key] = make(self.request, IterationStart(placed, copying))
            self.seconds += time.perf_counter() - started
        return self.plans[key]

    def _copying(self, state: s.State) -> Copying | None:
        """What copies take from here on, and what there is of them."""
        if not len(state.copies):
            return None
        K, rows = state.K, state.copies.copy()
        rows[:, s.HOST_AT] = np.where(rows[:, s.HOST_AT] == s.NO_COPY, s.NO_COPY, 0)
        out_busy, in_busy = (int(max(K[engine] - K[s.K_TOTAL], 0)) for engine in (s.K_OUT_FREE, s.K_IN_FREE))
        first = rows[:, s.OFFLOADABLE] * offloadable(self.program, self.trace, state_too=False)
        persistent = self.request.persistent
        if persistent:
            early = np.array([role in persistent for role in self.trace.role] + [False])
            there = self.program.values[:, s.PRODUCER] < 0
            rows[there & ~early[self.program.storage], s.OFFLOADABLE] *= USED_FIRST
            first = rows[:, s.OFFLOADABLE]
        return Copying(
            rows=rows,
            first=first,
            rate_mb_s=int(K[s.K_RATE]),
            shared_rate_mb_s=int(K[s.K_SHARED_RATE]),
            host_budget=int(K[s.K_HOST_BUDGET]),
            out_busy=out_busy,
            in_busy=in_busy,
            lasting=bool(persistent),
            absent=(absent := self._absent()),
            leaving=self.program.carry[np.isin(self.program.carry[:, s.TO], absent), s.FROM],
        )

    def is_kept(self, state: s.State) -> bool:
        """Whether a plan that keeps to the budget was found, if addresses do not count; else the replay says itself."""
        planned, peak = state.K[s.K_PLANNED_STEPS] > 0, int(state.K[s.K_PEAK])
        return self.request.addresses or bool(planned and peak <= self.request.budget)

    def header(self, state: s.State) -> dict[str, Any]:
        """Steps that went by plan to their end, the last plan's figures, the cost of steps that began anew.

        Planning time is wall-clock. `away`: storages that are on the host at both ends of an iteration, if any are.
        """
        made = [plan for plan in self.plans.values() if plan]
        figures = {"plan_peak_bytes": made[-1].peak, "plan_height_bytes": made[-1].height} if made else {}
        away = {"away": sorted(self.request.away)} if self.request.away else {}
        return (
            figures
            | away
            | {
                "planned_steps": int(state.K[s.K_PLANNED_STEPS]),
                "planning_ns": round(self.seconds * 1e9),
                "lost_cost_ns": self.lost_cost,
            }
        )
