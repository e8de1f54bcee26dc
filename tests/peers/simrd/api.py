"""Replay a trace as DTR's own simulator does, decision for decision: what users call."""

from typing import Any

import numpy as np

from coopsim.base.types import Action, CoopsimError, Outcome
from coopsim.simulate.kernel import codes
from coopsim.trace.schedule import Schedule
from coopsim.trace.table import Trace
from tests.peers.simrd import state as s
from tests.peers.simrd.loop import run
from tests.peers.simrd.lower import SimrdProgram, lower

POLICIES = {
    "dtr": (s.DTR, "DTR"),
    "dtr-eq": (s.EQ_CLASS, "DTREqClass"),
    "dtr-local": (s.LOCAL, "DTRLocal"),
    "lru": (s.LRU, "LRU"),
    "largest": (s.LARGEST, "LargestStorage"),
    "msps": (s.MSPS, "MSPS"),
}  #: name → (number for the kernels, class in simrd)
_OUTCOMES = list(Outcome)


def replay_simrd(trace: Trace, policy: str, budget: int, overhead_limit: float = 2.0) -> Schedule:
    """Replay one step under simrd's rules and record every action.

    policy: a key of POLICIES. budget: bytes, constants included. overhead_limit: recomputation beyond this many times
    the cost of the step, less one, ends the replay as `thrash`. Raises CoopsimError for arguments that make no sense.
    """
    return _replay(trace, policy, budget, overhead_limit, record=True)


def measure_simrd(trace: Trace, policy: str, budget: int, overhead_limit: float = 2.0) -> dict[str, Any]:
    """Replay without a log: only the figures (the keys of `coopsim replay --json`)."""
    from coopsim.simulate.metrics import summary

    return summary(_replay(trace, policy, budget, overhead_limit, record=False))


def baseline_peak_bytes(trace: Trace, otherwise: int) -> int:
    """What DTR's papers call a memory ratio of 1: the peak without budget if constants are freed too.

    Known for an imported log; `otherwise` for another trace.
    """
    return int(trace.header.get("simrd", {}).get("baseline_peak_bytes", otherwise))


def check_policy(policy: str) -> None:
    """CoopsimError if simrd has no such policy."""
    if policy not in POLICIES:
        raise CoopsimError(f"simrd has no policy {policy!r}; it has {', '.join(POLICIES)}")


def _replay(trace: Trace, policy: str, budget: int, overhead_limit: float, *, record: bool) -> Schedule:
    check_policy(policy)
    if budget <= 0:
        raise CoopsimError(f"the budget must be positive, not {budget} bytes")
    if not overhead_limit >= 1:
        raise CoopsimError(f"the overhead limit must be at least 1, not {overhead_limit}")
    program = lower(trace)
    if program.mixed_view >= 0 and policy in ("dtr", "msps"):
        op = program.mixed_view
        raise CoopsimError(
            f"op {op} ({trace.name[op]}) makes a view from several storages, for which simrd's regions (dtr, msps) are "
            "not defined; use dtr-eq, dtr-local, lru or largest"
        )
    number, _ = POLICIES[policy]
    limit = program.base_cost_ns * (overhead_limit - 1)
    state = s.new_state(program, number, budget, log_rows=0)
    run(state, limit)
    if record:  # the first run has counted the rows; a replay is deterministic, so the second fills exactly those
        state = s.new_state(program, number, budget, log_rows=int(state.K[s.K_ROWS]))
        run(state, limit)
    return _schedule(trace, program, state, policy, overhead_limit)


def _header(
    trace: Trace, program: SimrdProgram, state: s.SimrdState, policy: str, overhead_limit: float
) -> dict[str, Any]:
    K = state.K
    return {
        "trace": program.trace_hash,
        "model": trace.label,
        "semantics": "simrd",
        "policy": policy,
        "choices": {"simrd": POLICIES[policy][1]},
        "allocator": "counter",
        "granule": 1,
        "steps": 1,
        "cost_model": "cost",
        "random": "recompute",
        "overhead_limit": overhead_limit,
        "outcome": str(_OUTCOMES[K[s.K_OUTCOME]]),
        "budget_bytes": int(K[s.K_BUDGET]),
        "base_step_cost_ns": [program.base_cost_ns],
        "total_cost_ns": int(K[s.K_CLOCK]) - 1,
        "recompute_cost_ns": int(K[s.K_RECOMPUTE_COST]),
        "peak_bytes": int(K[s.K_PEAK]),
        "evictions": int(K[s.K_EVICTIONS]),
        "releases": int(K[s.K_RELEASES]),
        "recomputes": int(K[s.K_RECOMPUTES]),
        "ops_run": int(K[s.K_OPS]),
        "copies": 0,
        "searches": int(K[s.K_SEARCHES]),
        "search_visits": int(K[s.K_SCORES]),
        "search_scores": int(K[s.K_SCORES]),
        "max_blocks": int(K[s.K_MAX_POOL]),
        "search_ns": int(K[s.K_SEARCH_NS]),
        "free_ratio_sum": 0.0,
        "free_ratio_incl_sum": 0.0,
        "external_fragmentation_sum": 0.0,
        "failure": _failure(trace, program, state),
    }


def _failure(trace: Trace, program: SimrdProgram, state: s.SimrdState) -> dict[str, Any] | None:
    """Where and why a replay that did not end well ended: the op, and for out of memory what stood in the way."""
    K, V = state.K, state.V[:-1]
    if K[s.K_OUTCOME] == codes.OUTCOME_OK:
        return None
    op = int(program.op[K[s.K_OP]])
    where = {
        "step": 0,
        "op": op,
        "op_name": trace.name[op] if op >= 0 else "the start of the step",
        "module": trace.module[op] if op >= 0 else "",
    }
    if K[s.K_OUTCOME] == codes.OUTCOME_THRASH:
        return where
    by_role: dict[str, int] = {}
    for k in np.flatnonzero((V[:, s.MATERIAL] == 1) & (V[:, s.PINNED] == 1)).tolist():
        role = trace.role[program.owner[k]]
        by_role[role] = by_role.get(role, 0) + int(V[k, s.BYTES])
    locked = (V[:, s.MATERIAL] == 1) & (V[:, s.PINNED] == 0) & (V[:, s.LOCKS] > 0)
    free = int(K[s.K_BUDGET] - K[s.K_USED])
    return where | {
        "needed_bytes": int(K[s.K_NEEDED]),
        "free_bytes": free,
        "largest_hole_bytes": free,
        "non_evictable_bytes": by_role,
        "pinned_bytes": int(V[locked, s.BYTES].sum()),
    }


def _schedule(trace: Trace, program: SimrdProgram, state: s.SimrdState, policy: str, overhead_limit: float) -> Schedule:
    log = state.log
    constants = program.op[state.log[:, s.L_OP]] < 0
    log = log[~(constants & (log[:, s.L_ACTION] == Action.COMPUTE))]  # what is there at the start is no op's
    storage = log[:, s.L_STORAGE]
    named = storage >= 0
    zeros = np.zeros(len(log), np.int64)
    return Schedule(
        action=log[:, s.L_ACTION].astype(np.int8),
        step=zeros,
        op=program.op[log[:, s.L_OP]],
        storage=np.where(named, program.owner[storage], -1),
        version=np.where(named, program.version[storage], -1),
        address=zeros - 1,
        bytes=log[:, s.L_BYTES].copy(),
        time_ns=log[:, s.L_TIME].copy(),
        visits=log[:, s.L_VISITS].copy(),
        header=_header(trace, program, state, policy, overhead_limit),
    )
