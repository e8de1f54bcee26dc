"""What a replay came to: its header and its log as a schedule."""

from typing import Any

import numpy as np

from coopsim.base.types import Action, Outcome
from coopsim.simulate import policies
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.program import Program
from coopsim.simulate.replay.once import OneReplay
from coopsim.simulate.replay.user import Hooks
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule

_OUTCOMES = list(Outcome)


def schedule_of(replay: OneReplay, state: s.State) -> Schedule:
    """The schedule, with the rows that the replay has kept; none if it has kept none."""
    header = _header(replay, state) | {
        "policy": replay.policy.name,
        "choices": policies.choices(replay.policy),
        "allocator": replay.allocator.name,
        "granule": replay.allocator.granule,
        **replay.options.as_dict(),
        "own_functions": _own_functions(replay.hooks),
    }
    if replay.link is not None:
        header |= _of_copies(replay, state.K)
    if replay.planner:
        header |= replay.planner.header(state)
    if replay.memory:
        header |= replay.memory.header(state)
    return _schedule(replay.program, replay.rows, header)


def _of_copies(replay: OneReplay, K: s.Array) -> dict[str, Any]:
    """What only a replay that may offload has: the link and the host, and what the copies came to."""
    link, options = replay.link, replay.options
    assert link is not None
    by_host = {} if link.host_ns is None else {"link_host_ns": link.host_ns}
    return by_host | {
        "link": link.name,
        "rate_mb_s": link.rate_mb_s,
        "shared_rate_mb_s": link.shared_rate_mb_s,
        "latency_ns": link.latency_ns,
        "host_memory_bytes": options.host_memory,
        "stall_ns": int(K[s.K_STALL]),
        "offloads": int(K[s.K_OFFLOADS]),
        "offloaded_bytes": int(K[s.K_OFFLOADED_BYTES]),
        "fetches": int(K[s.K_FETCHES]),
        "fetched_bytes": int(K[s.K_FETCHED_BYTES]),
        "host_peak_bytes": int(K[s.K_HOST_PEAK]),
    }


def _own_functions(hooks: Hooks | None) -> dict[str, str]:
    """Which of a user's functions took part, and whether they were compiled."""
    if hooks is None:
        return {}
    found = {}
    if hooks.score_is_own:
        found["score"] = "compiled" if hooks.compiled else "Python"
    if hooks.search_is_own:
        found["choose"] = "compiled" if hooks.search_is_compiled else "Python"
    return found


def _header(replay: OneReplay, state: s.State) -> dict[str, Any]:
    trace, program, K, F = replay.trace, replay.program, state.K, state.F
    outcome = _OUTCOMES[K[s.K_OUTCOME]]
    found = replay.planner is None or replay.planner.is_kept(state)
    return {
        "trace": trace.content_hash,
        "model": trace.label,
        "outcome": str(outcome if found else Outcome.OOM),
        "budget_bytes": int(K[s.K_BUDGET]),
        "base_step_cost_ns": program.step_cost.tolist(),
        "total_cost_ns": int(K[s.K_TOTAL]) - (_spared(replay) if outcome == Outcome.OK else 0),
        "recompute_cost_ns": int(K[s.K_RECOMPUTE_COST]),
        "peak_bytes": int(K[s.K_PEAK]),
        "peak_without_eviction_bytes": peak_bytes(trace, replay.allocator.granule),
        "evictions": int(K[s.K_EVICTIONS]),
        "releases": int(K[s.K_RELEASES]),
        "recomputes": int(K[s.K_RECOMPUTES]),
        "ops_run": int(K[s.K_OPS]),
        "copies": int(K[s.K_COPIES]),
        "searches": int(K[s.K_SEARCHES]),
        "search_visits": int(K[s.K_VISITS]),
        "search_scores": int(K[s.K_SCORES]),
        "costs_asked": int(K[s.K_QUERIES]),
        "max_blocks": int(K[s.K_MAX_BLOCKS]),
        "search_ns": int(K[s.K_SEARCH_NS]),
        "free_ratio_sum": float(F[s.F_FREE]),
        "free_ratio_incl_sum": float(F[s.F_FREE_INCL]),
        "external_fragmentation_sum": float(F[s.F_FRAGMENTATION]),
        "failure": _failure(replay, state, outcome),
    }


def _spared(replay: OneReplay) -> int:
    """What the replay took for the request's markers that nothing takes: for all of them but the last.

    They only say what the program still has. It drops what the others read before it would come back.
    """
    log, markers = replay.rows, replay.request.markers
    if not markers:
        return 0
    runs = log[log[:, s.L_ACTION] == Action.COMPUTE]
    ops = [k for k, op in enumerate(runs[:, s.L_OP].tolist()) if op not in markers]
    if not ops or ops[-1] >= len(runs) - 2:
        return 0
    last, end = runs[ops[-1]], runs[-2]
    return int(end[s.L_TIME] - last[s.L_TIME] - replay.trace.cost_ns[last[s.L_OP]])


def _failure(replay: OneReplay, state: s.State, outcome: Outcome) -> dict[str, Any] | None:
    """Where and why a replay that did not end well ended: the op, and for out of memory what stood in the way."""
    if outcome == Outcome.OK:
        return None
    trace, program, K, V = replay.trace, replay.program, state.K, state.V
    op = int(K[s.K_OP])
    where = {
        "step": int(K[s.K_STEP]),
        "op": op,
        "op_name": trace.name[op] if op >= 0 else "the start of the step",
        "module": trace.module[op] if op >= 0 else "",
    }
    if outcome != Outcome.OOM:
        return where
    resident = V[:, s.BLOCK] >= 0
    losable = state.copies[:, s.OFFLOADABLE] if replay.link else V[:, s.EVICTABLE]
    fixed = resident & (losable == 0)
    pinned = resident & (losable == 1) & (V[:, s.PINS] > 0)
    by_role: dict[str, int] = {}
    for v in np.flatnonzero(fixed).tolist():
        role = trace.role[program.storage[v]] if program.storage[v] >= 0 else "temporary"
        by_role[role] = by_role.get(role, 0) + int(V[v, s.BYTES])
    return where | {
        "needed_bytes": int(K[s.K_NEEDED]),
        "free_bytes": int(K[s.K_FREE]),
        "largest_hole_bytes": int(K[s.K_LARGEST]),
        "non_evictable_bytes": by_role,
        "pinned_bytes": int(V[pinned, s.BYTES].sum()),
    }


def _schedule(program: Program, log: s.Array, header: dict[str, Any]) -> Schedule:
    if len(program.spare):
        log = log[~np.isin(log[:, s.L_VALUE], program.spare)]
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
