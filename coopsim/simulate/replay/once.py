"""One replay: what all its tries share, and one try."""

import ctypes
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from coopsim.base.text import human
from coopsim.base.types import Action, CoopsimError, CostModel, Lose, OffloadState, SmallArea
from coopsim.cards.link import Link
from coopsim.simulate.allocators import ARENA
from coopsim.simulate.allocators.small_area import SMALL_AREA
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import address_of
from coopsim.simulate.kernel.new_state import new_state
from coopsim.simulate.planning.request import PlanRequest, copies
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay.loop import run
from coopsim.simulate.replay.planned_run import PlannedRun
from coopsim.simulate.replay.score import random_state
from coopsim.simulate.replay.user import Hooks

ROWS = 1 << 15  #: of the core's array

_TAKE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_COUNTED = {
    Action.EVICT: s.K_EVICTIONS,
    Action.RELEASE: s.K_RELEASES,
    Action.RECOMPUTE: s.K_RECOMPUTES,
    Action.OFFLOAD: s.K_OFFLOADS,
    Action.FETCH: s.K_FETCHES,
}
_NO_LIMIT = 1 << 61  # bytes
_OPS_AT_ONCE = 1_000_000  # about as many as are run in a second


class Log:
    """All rows of one run of the core on `state`. A replay runs once: nothing counts them beforehand."""

    def __init__(self, state: s.State) -> None:
        self._state, self._taken = state, list[s.Array]()
        self._callback = _TAKE(self._take)
        state.K[s.K_LOG_HOOK] = address_of(self._callback)

    def _take(self, _what: int, rows: int) -> int:
        self._taken.append(self._state.log[:rows].copy())
        return 0

    def rows(self) -> s.Array:
        """The rows, in order. CoopsimError if they are not those that the core has counted."""
        K, log = self._state.K, self._state.log
        found = np.concatenate([*self._taken, log[: K[s.K_ROWS] - K[s.K_TAKEN]]])
        counts = np.bincount(found[:, s.L_ACTION], minlength=len(Action))
        wrong = [f"{a.name.lower()} {counts[a]} and {K[at]}" for a, at in _COUNTED.items() if counts[a] != K[at]]
        if (ops := counts[Action.COMPUTE] + counts[Action.RECOMPUTE]) != K[s.K_OPS]:
            wrong.append(f"ops {ops} and {K[s.K_OPS]}")
        if len(found) != K[s.K_ROWS]:
            wrong.append(f"rows {len(found)} and {K[s.K_ROWS]}")
        if wrong:
            raise CoopsimError(f"a defect of coopsim: the schedule's rows and counters differ ({'; '.join(wrong)})")
        return found


class OneReplay:
    """A trace under a policy, in an allocator of so many bytes. CoopsimError for what makes no sense."""

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        trace, policy, allocator, options = request.trace, request.policy, request.allocator, request.options
        self.trace, self.policy, self.allocator, self.options = trace, policy, allocator, options
        if request.budget <= 0:
            raise CoopsimError(f"the budget must be positive, not {request.budget} bytes")
        if trace.header.get("dependencies") == "unknown":
            raise CoopsimError(
                f"{trace.label} is a memory snapshot's, which does not say what could be recomputed; see coopsim advise"
            )
        self.program = request.program
        self._check_repetition()
        allocator.needs_a_block(request.budget, f"a budget of {request.budget} bytes")
        self.budget = request.memory_bytes
        self.small_area = policy.small_area == SmallArea.TOP and allocator.name == ARENA.name
        if self.small_area and self.budget <= SMALL_AREA:
            raise CoopsimError(f"small_area=top takes {human(SMALL_AREA)} of the budget, which is {human(self.budget)}")
        self.link = request.link
        if policy.lose == Lose.EITHER and options.cost_model != CostModel.COST:
            raise CoopsimError(f"lose=either compares times, and needs the cost model cost, not {options.cost_model}")
        self.hooks = Hooks(policy, self.program, trace, options.seed) if policy.is_own else None
        self.memory = allocator.memory(self.budget, len(self.program.values))
        if self.memory and self.hooks:
            self.memory.make_room()
        self.rows: s.Array = np.zeros((0, s.L_COLUMNS), np.int64)
        self.planner: PlannedRun | None = None
        if policy.plans and allocator.name == ARENA.name:
            self.planner = PlannedRun(request)

    def _check_repetition(self) -> None:
        trace, used_up = self.trace, self.program.used_up
        if self.options.steps > trace.n_steps and used_up >= 0:
            what = f"{trace.role[used_up]}, {human(trace.bytes[used_up])}"
            raise CoopsimError(
                f"this trace cannot be repeated: storage {used_up} ({what}) is used up and nothing replaces it; "
                f"give --steps {trace.n_steps} or fewer"
            )

    def run(self, *, record: bool) -> s.State:
        """Replay, and begin anew as long as the planner does. record: keep every action, in `rows`."""
        state = self._once(record=record)
        while self.planner and self.planner.begins_anew(state):
            state = self._once(record=record)
        return state

    def _once(self, *, record: bool) -> s.State:
        """From the start to the end, or to where it fails."""
        while True:
            first = self.planner.policy_for(0) if self.planner else self.policy
            own = self.hooks is not None
            empty = self.memory.empty() if self.memory else None
            state = new_state(self.program, self._choice(first), self.budget, ROWS if record else 0, empty, table=own)
            state.K[s.K_RANDOM] = random_state(self.options.seed)
            if self.link is not None:
                state = self._with_copies(state, self.link)
            if self.small_area:
                state.K[s.K_BORDER] = self.budget - SMALL_AREA
            log = Log(state) if record else None
            with self.hooks.listening() if self.hooks else nullcontext():
                if self.hooks:
                    self.hooks.attach(state)
                if self.planner:
                    self.planner.run(state, self.options.steps, self.options.overhead_limit, self._choice)
                else:
                    _run(state, self.options.steps, self.options.overhead_limit)
            if self.hooks:
                self.hooks.check()
            if self.memory is None or not state.K[s.K_CROWDED]:
                if log:
                    self.rows = log.rows()
                return state
            self.memory.grow()

    def _with_copies(self, state: s.State, link: Link) -> s.State:
        """The state of a replay that may offload."""
        K, limit = state.K, self.options.host_memory
        K[s.K_RATE], K[s.K_SHARED_RATE] = link.rate_mb_s, link.shared_rate_mb_s
        K[s.K_HOST_BUDGET] = _NO_LIMIT if limit is None else limit
        state_too = self.policy.offload_state == OffloadState.YES
        return replace(state, copies=copies(self.program, self.trace, link, state_too=state_too))

    def _choice(self, policy: Policy) -> s.Array:
        return _choice(policy, self.allocator.code)


def _run(state: s.State, steps: int, overhead_limit: float) -> None:
    """Replay in parts, as Ctrl-C is not seen while the core runs."""
    part = max(1, _OPS_AT_ONCE * len(state.step_cost) // len(state.O))
    for until in range(part, steps + part, part):
        run(state, min(until, steps), overhead_limit)
        if state.K[s.K_OUTCOME] != codes.OUTCOME_OK:
            return


def _choice(policy: Policy, allocator: int) -> s.Array:
    """A policy and an allocator as kernels know them."""
    choice = np.zeros(s.C_SIZE, np.int64)
    choice[s.C_COST] = codes.code(policy.cost)
    choice[s.C_DIVISOR] = codes.code(policy.divisor)
    choice[s.C_RECENCY] = codes.code(policy.recency)
    choice[s.C_SEARCH] = codes.code(policy.search)
    choice[s.C_PLACEMENT] = codes.code(policy.placement)
    choice[s.C_IN_PLACE] = codes.code(policy.in_place)
    choice[s.C_RELEASE] = codes.code(policy.release)
    choice[s.C_DEAD] = codes.code(policy.dead)
    choice[s.C_NODE] = codes.code(policy.node)
    choice[s.C_ALLOCATOR] = allocator
    choice[s.C_LOSE] = codes.code(policy.lose)
    return choice
