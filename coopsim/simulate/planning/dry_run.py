"""A dry run of an iteration by given decisions: what it recomputes, holds and asks for.

replay/plan.py says what can be decided. Everything else is as in a replay (docs/replay.md), without addresses.
"""

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run_copies import copy_before, fetch, wait
from coopsim.simulate.planning.dry_run_state import (
    D_BYTES,
    D_COST,
    D_COUNT,
    D_FIRST_RUN,
    D_NOW,
    D_OPS,
    D_RESIDENCIES,
    D_RUNS,
    FOR_OTHERS,
    HERE,
    HOLDS,
    INTERVAL,
    NEED,
    RESIDENCY,
    SINCE,
    T_AWAY,
    T_HOST_USED,
    T_IN_BUSY,
    T_IN_FREE,
    T_LEAVING,
    T_LEFT,
    T_OUT_BUSY,
    T_OUT_FREE,
    T_STALL,
    T_TIME,
    DryRun,
    come,
    discard,
    is_copied,
    leave,
)
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE


@kernel
def dry_run(D: DryRun) -> bool:
    """Go through the iteration. D.K[D_COST] is the decision cost of recomputations, D.peak the bytes. False: lost."""
    for v in range(D.V.shape[0]):
        D.X[v, HERE] = D.X[v, HOLDS] = D.X[v, FOR_OTHERS] = 0
        D.X[v, INTERVAL] = v + D.V[v, s.USES]
        D.X[v, NEED] = D.X[v, SINCE] = -1
    for i in range(D.back.shape[0]):
        D.back[i] = -1
    for op in range(D.spare.shape[0]):
        D.spare[op] = 0
    D.K[D_COST] = D.K[D_RESIDENCIES] = D.K[D_RUNS] = D.K[D_BYTES] = 0
    D.K[D_NOW] = -1
    D.K[D_COUNT] += 1
    D.T[T_TIME] = D.T[T_STALL] = D.T[T_HOST_USED] = D.T[T_AWAY] = D.T[T_LEFT] = 0
    D.T[T_OUT_FREE], D.T[T_IN_FREE] = D.T[T_OUT_BUSY], D.T[T_IN_BUSY]
    for v in range(D.copies.shape[0]):
        D.copies[v, s.HOST_AT] = D.copied[v]
        if D.copied[v] != s.NO_COPY:
            D.T[T_HOST_USED] += D.V[v, s.BYTES]
        D.copies[v, s.FETCHED_AT] = D.copies[v, s.LEAVES] = 0
    for k in range(D.initial.shape[0]):
        come(D, D.initial[k])
    for e in range(D.E.shape[0]):
        v = D.E[e, s.ID]
        if D.E[e, s.KIND] == s.RUN:
            D.K[D_NOW] = v
            if D.copies.shape[0] > 0 and not copy_before(D, v):
                return False
            if not _serve(D, v):
                return False
            continue
        if D.E[e, s.KIND] != s.END_STEP and D.E[e, s.KIND] != s.DROP_ONLY:
            discard(D, v)
        if D.X[v, HERE] and (D.E[e, s.KIND] == s.GONE or (D.E[e, s.KIND] == s.DROP and D.V[v, s.EVICTABLE] == 0)):
            _go(D, v)
    D.K[D_OPS] += D.K[D_RUNS]
    _take_off_spare(D)
    if D.T[T_LEAVING]:
        wait(D, D.T[T_OUT_FREE])
    D.K[D_COST] += D.T[T_STALL]
    return True


@inlined
def _take_off_spare(D: DryRun) -> None:
    """Values that stayed for others, without an end to that in D.until, count up to the last op that needed them."""
    for v in range(D.V.shape[0]):
        if D.X[v, HERE] and D.V[v, s.EVICTABLE] and D.X[v, INTERVAL] == v + D.V[v, s.USES_END]:
            D.spare[max(D.X[v, NEED], D.X[v, SINCE]) + 1] += D.V[v, s.BYTES]
    spare = 0
    for op in range(D.peak.shape[0]):
        spare += D.spare[op]
        D.peak[op] -= spare


@inlined
def _go(D: DryRun, v: int) -> None:
    discard(D, v)
    leave(D, v)


@kernel
def _serve(D: DryRun, op: int) -> bool:
    """Run op, and before it those that make its missing inputs, depth first (run_op.py)."""
    if not _hold(D, op):
        return False
    D.peak[op] = 0
    stack, depth = D.stack, 1
    stack[0] = op
    while depth > 0:
        p = stack[depth - 1]
        missing = -1
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            if D.X[D.ins[k], HERE] == 0:
                if is_copied(D, D.ins[k]):
                    fetch(D, D.ins[k], -1)
                    continue
                missing = D.ins[k]
                break
        if missing >= 0:
            stack[depth] = D.V[missing, s.PRODUCER]
            depth += 1
        else:
            _execute(D, p, op)
            depth -= 1
    return True


@inlined
def _hold(D: DryRun, op: int) -> bool:
    stack, depth = D.stack, 1
    stack[0] = op
    D.pending[op] = 1
    while depth > 0:
        depth -= 1
        p = stack[depth]
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            v = D.ins[k]
            D.X[v, HOLDS] += 1
            if D.X[v, HERE] == 0 and not is_copied(D, v):
                producer = D.V[v, s.PRODUCER]
                if producer < 0:
                    return False
                if D.pending[producer] == 0:
                    D.pending[producer] = 1
                    stack[depth] = producer
                    depth += 1
    return True


@kernel
def _execute(D: DryRun, p: int, op: int) -> None:
    again = p != op
    D.pending[p] = 0
    D.K[D_RUNS] += 1
    for k in range(D.O[p, s.OUTS], D.O[p + 1, s.OUTS]):
        w = D.outs[k]
        D.X[w, HOLDS] += 1
        older = D.V[w, s.OLDER]
        if again and D.X[w, HERE] == 0 and D.X[w, INTERVAL] == w + D.V[w, s.USES_END]:
            D.X[w, FOR_OTHERS] += 1
        in_place = D.V[w, s.IN_PLACE] and D.X[older, HOLDS] == 1 and not (again and D.K[D_FIRST_RUN])
        if D.X[w, HERE] == 0 and not in_place:
            come(D, w)
    D.peak[op] = max(D.peak[op], D.K[D_BYTES])
    if D.copies.shape[0] > 0:
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            wait(D, D.copies[D.ins[k], s.FETCHED_AT])
        D.T[T_TIME] += D.O[p, s.COST]
    for k in range(D.O[p, s.OUTS], D.O[p, s.TEMPS]):
        w = D.outs[k]
        if D.X[w, HERE] == 0:  # in place
            older = D.V[w, s.OLDER]
            discard(D, older)
            D.X[older, HERE] = 0
            D.X[w, HERE] = 1
            D.X[w, SINCE] = op
            D.X[w, RESIDENCY] = D.X[older, RESIDENCY]
    if again:
        D.K[D_COST] += D.O[p, s.DECIDE]
    for k in range(D.O[p, s.TEMPS], D.O[p + 1, s.OUTS]):
        D.X[D.outs[k], HOLDS] -= 1
        _go(D, D.outs[k])
    for k in range(D.O[p, s.OUTS], D.O[p, s.TEMPS]):
        _let_go(D, D.outs[k], again)
    for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
        v = D.ins[k]
        if not again:
            D.X[v, INTERVAL] += 1
        D.X[v, NEED] = op
        _let_go(D, v, again)


@inlined
def _let_go(D: DryRun, v: int, again: bool) -> None:
    D.X[v, HOLDS] -= 1
    if D.X[v, HOLDS] == 0 and D.X[v, HERE] and D.V[v, s.EVICTABLE]:
        decision = D.decisions[D.X[v, INTERVAL]]
        waits = D.X[v, INTERVAL] == v + D.V[v, s.USES_END]  # for no use of its own
        if decision == LEAVE or (decision == LEAVE_ONCE and not again) or (waits and D.until[v] <= D.K[D_NOW]):
            _go(D, v)
