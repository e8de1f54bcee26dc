"""Replay a trace under a policy, an allocator and a budget: what users call."""

from contextlib import nullcontext
from typing import Any

import numpy as np

from coopsim import allocators, policies
from coopsim.allocators.caching import settings, version
from coopsim.allocators.caching import state as caching_state
from coopsim.allocators.caching.conf import parse
from coopsim.kernel import codes
from coopsim.kernel import state as s
from coopsim.policies import Policy
from coopsim.replay.foresight.planner import Planner
from coopsim.replay.loop import run
from coopsim.replay.lower import Program, lower
from coopsim.replay.user import Hooks
from coopsim.schedule import Schedule
from coopsim.text import human
from coopsim.trace.table import Trace
from coopsim.types import (
    CoopsimError,
    Outcome,
)

_OUTCOMES = list(Outcome)
_OPS_AT_ONCE = 1_000_000  # about as many as are run in a second


def replay(
    trace: Trace,
    policy: Policy | str,
    allocator: str = "arena",
    budget: int = 0,
    *,
    steps: int = 10,
    decide_by: str = "cost",
    overhead_limit: float = 10.0,
    random: str = "recompute",
    torch: str = version.NEWEST,
    alloc_conf: str = "",
) -> Schedule:
    """Replay and record every action.

    budget: bytes for everything on the device. steps: how many training steps in one memory. decide_by: the cost that
    the policy goes by (`cost`, `bytes`, `flops`, `unit`); the reported cost is always the trace's. overhead_limit:
    total cost over this many times the cost without recomputation ends the replay as `thrash`. random: `recompute`
    (the generator's state is saved) or `keep` results of random ops. torch, alloc_conf: of the allocator cuda-caching,
    the version of PyTorch and what PYTORCH_CUDA_ALLOC_CONF holds; the budget is the memory of the card. Raises
    CoopsimError for arguments that make no sense; running out of memory is an outcome.
    """
    memory = torch, alloc_conf
    return _replay(trace, policy, allocator, budget, steps, decide_by, overhead_limit, random, *memory, record=True)


def measure(
    trace: Trace, policy: Policy | str, allocator: str = "arena", budget: int = 0, **options: Any
) -> dict[str, Any]:
    """Replay without a log: only the figures (metrics.summary's keys). What sweeps call."""
    from coopsim.metrics import summary

    defaults: dict[str, Any] = {"steps": 10, "decide_by": "cost", "overhead_limit": 10.0, "random": "recompute"}
    defaults |= {"torch": version.NEWEST, "alloc_conf": ""}
    return summary(_replay(trace, policy, allocator, budget, **(defaults | options), record=False))


def _replay(
    trace: Trace,
    policy: Policy | str,
    allocator: str,
    budget: int,
    steps: int,
    decide_by: str,
    overhead_limit: float,
    random: str,
    torch: str,
    alloc_conf: str,
    *,
    record: bool,
) -> Schedule:
    policy = policies.find(policy) if isinstance(policy, str) else policy
    kind = allocators.find(allocator)
    if budget <= 0:
        raise CoopsimError(f"the budget must be positive, not {budget} bytes")
    if steps < 1:
        raise CoopsimError(f"steps must be at least 1, not {steps}")
    if not overhead_limit >= 1:
        raise CoopsimError(f"the overhead limit must be at least 1, not {overhead_limit}")
    if random not in ("recompute", "keep"):
        raise CoopsimError(f"random ops: recompute or keep, not {random!r}")
    if trace.header.get("dependencies") == "unknown":
        raise CoopsimError(
            f"{trace.label} is a memory snapshot's, which does not say what could be recomputed; see coopsim advise"
        )
    program = lower(
        trace,
        in_place=policy.in_place,
        pinning=policy.pinning,
        granule=kind.granule,
        decide_by=decide_by,
        keep_random=random == "keep",
    )
    if steps > trace.n_steps and program.used_up >= 0:
        what = f"{trace.role[program.used_up]}, {human(trace.bytes[program.used_up])}"
        raise CoopsimError(
            f"this trace cannot be repeated: storage {program.used_up} ({what}) is used up and nothing replaces it; "
            f"give --steps {trace.n_steps} or fewer"
        )
    kind.needs_a_piece(budget, f"a budget of {budget} bytes")
    budget = budget // kind.granule * kind.granule
    hooks = Hooks(policy) if policy.score or policy.choose else None

    memory = _Caching(torch, alloc_conf, budget, len(program.values)) if kind.name == "cuda-caching" else None

    planner = None
    if policy.plans and kind.name == "arena":
        planner = Planner(trace, program, policy, budget)

    def choice(policy: Policy) -> s.Array:
        return _choice(policy, kind.code)

    def once(log_rows: int) -> s.State:
        while True:
            first = choice(planner.policy_for(0) if planner else policy)
            state = s.new_state(program, first, budget, log_rows, memory.empty() if memory else None)
            if hooks:
                hooks.attach(state)
            with hooks.listening() if hooks else nullcontext():
                if planner:
                    planner.run(state, steps, overhead_limit, choice)
                else:
                    _run(state, steps, overhead_limit)
            if hooks:
                hooks.check()
            if memory is None or not state.K[s.K_CROWDED]:
                return state
            memory.blocks *= 2

    state = once(log_rows=0)
    while planner and planner.begins_anew(state):
        state = once(log_rows=0)
    if record:  # the last run has counted the rows; a replay is deterministic, so this one fills exactly those
        state = once(log_rows=int(state.K[s.K_ROWS]))
    header = _header(trace, program, state) | {
        "policy": policy.name,
        "choices": policies.choices(policy),
        "allocator": kind.name,
        "granule": kind.granule,
        "steps": steps,
        "decide_by": decide_by,
        "overhead_limit": overhead_limit,
        "random": random,
        "own_functions": _own_functions(hooks),
    }
    if planner:
        header |= planner.header(state)
    if memory:
        header |= memory.header(state)
    return _schedule(program, state, header)


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
    choice[s.C_ALLOCATOR] = allocator
    return choice


class _Caching:
    """What a replay needs of the caching allocator: empty ones, and what is said of a used one."""

    def __init__(self, torch: str, conf: str, total_bytes: int, values: int) -> None:
        self.torch, self.conf, self.total_bytes = torch, conf, total_bytes
        self.rules = version.find(torch)
        self.settings = parse(conf, self.rules)
        self.blocks = 8 * values + 1024

    def empty(self) -> caching_state.Caching:
        state = caching_state.new_state(self.blocks)
        settings.apply(self.settings, self.rules, self.total_bytes, state)
        return state

    def header(self, state: s.State) -> dict[str, Any]:
        """The version, whose rules it has, the settings; peak of reserved bytes; how often it tried again."""
        K = state.caching.K
        return {
            "torch": self.torch,
            "torch_rules": self.rules.name,
            "alloc_conf": self.conf,
            "peak_reserved_bytes": int(K[caching_state.K_RESERVED + 1]),
            "alloc_retries": int(K[caching_state.K_RETRIES]),
        }


def _own_functions(hooks: Hooks | None) -> dict[str, str]:
    """Which of a user's functions took part, and whether they were compiled."""
    if hooks is None:
        return {}
    found = {}
    if hooks.policy.score:
        found["score"] = "compiled" if hooks.compiled else "Python"
    if hooks.policy.choose:
        found["choose"] = "Python"
    return found


def _header(trace: Trace, program: Program, state: s.State) -> dict[str, Any]:
    K, F = state.K, state.F
    outcome = _OUTCOMES[K[s.K_OUTCOME]]
    return {
        "trace": trace.content_hash,
        "model": trace.label,
        "outcome": str(outcome),
        "budget_bytes": int(K[s.K_BUDGET]),
        "base_step_cost_ns": program.step_cost.tolist(),
        "total_cost_ns": int(K[s.K_TOTAL]),
        "recompute_cost_ns": int(K[s.K_RECOMPUTE_COST]),
        "peak_bytes": int(K[s.K_PEAK]),
        "evictions": int(K[s.K_EVICTIONS]),
        "releases": int(K[s.K_RELEASES]),
        "recomputes": int(K[s.K_RECOMPUTES]),
        "ops_run": int(K[s.K_OPS]),
        "copies": int(K[s.K_COPIES]),
        "searches": int(K[s.K_SEARCHES]),
        "search_visits": int(K[s.K_VISITS]),
        "search_scores": int(K[s.K_SCORES]),
        "costs_asked": int(K[s.K_ASKED]),
        "max_pieces": int(K[s.K_MAX_PIECES]),
        "search_ns": int(K[s.K_SEARCH_NS]),
        "free_ratio_sum": float(F[s.F_FREE]),
        "free_ratio_incl_sum": float(F[s.F_FREE_INCL]),
        "scatter_sum": float(F[s.F_SCATTER]),
        "failure": _failure(trace, program, state, outcome),
    }


def _failure(trace: Trace, program: Program, state: s.State, outcome: Outcome) -> dict[str, Any] | None:
    """Where and why a replay that did not end well ended: the op, and for out of memory what stood in the way."""
    if outcome == Outcome.OK:
        return None
    K, V = state.K, state.V
    op = int(K[s.K_OP])
    where = {
        "step": int(K[s.K_STEP]),
        "op": op,
        "op_name": trace.name[op] if op >= 0 else "the start of the step",
        "module": trace.module[op] if op >= 0 else "",
    }
    if outcome != Outcome.OOM:
        return where
    resident = V[:, s.PIECE] >= 0
    fixed = resident & (V[:, s.EVICTABLE] == 0)
    pinned = resident & (V[:, s.EVICTABLE] == 1) & (V[:, s.PINS] > 0)
    by_role: dict[str, int] = {}
    for v in np.flatnonzero(fixed).tolist():
        role = trace.role[program.storage[v]] if program.storage[v] >= 0 else "temporary"
        by_role[role] = by_role.get(role, 0) + int(V[v, s.BYTES])
    return where | {
        "needed_bytes": int(K[s.K_NEEDED]),
        "free_bytes": int(K[s.K_FREE]),
        "largest_hole_bytes": int(K[s.K_LARGEST]),
        "fixed_bytes": by_role,
        "pinned_bytes": int(V[pinned, s.BYTES].sum()),
    }


def _schedule(program: Program, state: s.State, header: dict[str, Any]) -> Schedule:
    log = state.log
    value = log[:, s.L_VALUE]
    named = value >= 0
    storage = np.where(named, program.storage[value], -1)
    version = np.where(named, program.version[value], -1)
    return Schedule(
        action=log[:, s.L_ACTION].astype(np.int8),
        step=log[:, s.L_STEP].copy(),
        op=log[:, s.L_OP].copy(),
        storage=storage,
        version=version,
        address=log[:, s.L_ADDRESS].copy(),
        bytes=log[:, s.L_BYTES].copy(),
        time_ns=log[:, s.L_TIME].copy(),
        visits=log[:, s.L_VISITS].copy(),
        header=header,
    )
