"""A dry run of an iteration by given decisions: what it recomputes, holds and asks for.

replay/plan.py says what can be decided. Everything else is as in a replay (docs/replay.md), without addresses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
from coopsim.replay.host import copy_ns
from coopsim.replay.lower import NEVER
from coopsim.replay.plan import LEAVE, LEAVE_ONCE

# X: a row per value. INTERVAL: its current idle interval. RESIDENCY: its number. NEED: the last op that
# it was an input for, of its own or of one that ran again for it. SINCE: the op for which it came last. FOR_OTHERS: how
# often it was made again when it waited for no use of its own.
HERE, HOLDS, INTERVAL, RESIDENCY, NEED, SINCE, FOR_OTHERS = range(7)
X_COLUMNS = 7

# Q: a row per residency, in the order of requests. FROM and UNTIL count op runs, two for each.
Q_VALUE, Q_BYTES, Q_FROM, Q_UNTIL = range(4)
Q_COLUMNS = 4

# K: cost, residencies and op runs, bytes now; a stamp for walks, how many dry runs there were, whether an op is in
# place on its first run only, the op now.
D_COST, D_RESIDENCIES, D_RUNS, D_BYTES, D_STAMP, D_COUNT, D_FIRST_RUN, D_NOW = range(8)
# K, of copies: the time, and how much of it is stall; what the engines are busy with; rates; the host's bytes; how many
# copies are planned, and how far they have got (kernel/state.py: K_AWAY, K_LEFT).
(
    D_TIME,
    D_STALL,
    D_OUT_FREE,
    D_IN_FREE,
    D_RATE,
    D_SHARED_RATE,
    D_HOST_BUDGET,
    D_HOST_USED,
    D_AWAYS,
    D_AWAY,
    D_LEFT,
    D_OUT_BUSY,  # the engines, when the iteration begins
    D_IN_BUSY,
) = range(8, 21)
D_SIZE = 21


class DryRun(Bundle):
    """The program of a replay's state, decisions, and room to count in."""

    V: s.Array
    O: s.Array  # noqa: E741
    ins: s.Array
    outs: s.Array
    uses: s.Array
    initial: s.Array
    E: s.Array
    decisions: NDArray[np.int8]  # of each interval
    back: s.Array  # of each interval: the first op for which its value came back before it ended, -1: none
    until: s.Array  # of each value: the op until which it may stay in its last interval
    X: s.Array
    peak: s.Array  # most bytes while each op of the program is served
    spare: s.Array  # bytes that nothing needs from each op on: the change
    pending: s.Array
    stack: s.Array
    Q: s.Array  # empty: residencies are not recorded
    away: s.Array  # room for planned copies (kernel/state.py); no rows: nothing is copied
    copies: s.Array  # as there
    copied: s.Array  # HOST_AT of each value at the start
    begin: s.Array  # of each op of the program, the time when its copies are due
    K: s.Array


@dataclass(frozen=True)
class Copying:
    """What copies take: rows as State.copies at the start of an iteration (HOST_AT: 0 if the host has a copy then),
    rates, the host's bytes for them, and for how long the engines are busy at first.

    first: OFFLOADABLE without parameters and the like, which are offloaded only where nothing else fits: they come back
    to other places, and the next iteration has to be planned around these.
    """

    rows: s.Array
    first: s.Array
    rate_mb_s: int
    shared_rate_mb_s: int
    host_budget: int
    out_busy: int
    in_busy: int


def new_dry_run(program: Any, *, first_run: bool = False, copying: Copying | None = None) -> DryRun:
    """For the program of a replay (replay.lower.Program). Residencies are recorded once Q has been given rows."""
    values, n_ops = len(program.values), len(program.ops) - 1
    K = np.zeros(D_SIZE, np.int64)
    K[D_FIRST_RUN] = first_run
    n_away = 0
    if copying is not None:
        K[D_RATE], K[D_SHARED_RATE] = copying.rate_mb_s, copying.shared_rate_mb_s
        K[D_HOST_BUDGET] = copying.host_budget
        K[D_OUT_BUSY], K[D_IN_BUSY] = copying.out_busy, copying.in_busy
        n_away = 2 * (len(program.uses) + values)
    return DryRun(
        V=program.values,
        O=program.ops,
        ins=program.ins,
        outs=program.outs,
        uses=program.uses,
        initial=program.initial,
        E=program.events,
        decisions=np.zeros(len(program.uses) + values, np.int8),
        back=np.zeros(len(program.uses) + values, np.int64),
        until=np.full(values, NEVER),
        X=np.zeros((values, X_COLUMNS), np.int64),
        peak=np.zeros(n_ops, np.int64),
        spare=np.zeros(n_ops + 1, np.int64),
        pending=np.zeros(n_ops + 1, np.int64),
        stack=np.zeros(n_ops + 1, np.int64),
        Q=np.zeros((0, Q_COLUMNS), np.int64),
        away=np.zeros((n_away, s.A_COLUMNS), np.int64),
        copies=np.zeros((0, s.COPIES_COLUMNS), np.int64) if copying is None else copying.rows.copy(),
        copied=np.zeros(0, np.int64) if copying is None else copying.rows[:, s.HOST_AT].copy(),
        begin=np.zeros(n_ops, np.int64),
        K=K,
    )


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
    D.K[D_TIME] = D.K[D_STALL] = D.K[D_HOST_USED] = D.K[D_AWAY] = D.K[D_LEFT] = 0
    D.K[D_OUT_FREE], D.K[D_IN_FREE] = D.K[D_OUT_BUSY], D.K[D_IN_BUSY]
    for v in range(D.copies.shape[0]):
        D.copies[v, s.HOST_AT] = D.copied[v]
        if D.copied[v] != s.NO_COPY:
            D.K[D_HOST_USED] += D.V[v, s.BYTES]
        D.copies[v, s.FETCHED_AT] = D.copies[v, s.LEAVES] = 0
    for k in range(D.initial.shape[0]):
        _come(D, D.initial[k])
    for e in range(D.E.shape[0]):
        v = D.E[e, s.ID]
        if D.E[e, s.KIND] == s.RUN:
            D.K[D_NOW] = v
            if D.copies.shape[0] > 0 and not _copy(D, v):
                return False
            if not _serve(D, v):
                return False
            continue
        if D.E[e, s.KIND] != s.END_STEP and D.E[e, s.KIND] != s.DROP_ONLY:
            _discard(D, v)
        if D.X[v, HERE] and (D.E[e, s.KIND] == s.GONE or (D.E[e, s.KIND] == s.DROP and D.V[v, s.EVICTABLE] == 0)):
            _go(D, v)
    _take_off_spare(D)
    D.K[D_COST] += D.K[D_STALL]
    return True


@inlined
def _is_copied(D: DryRun, v: int) -> bool:
    return D.copies.shape[0] > 0 and D.copies[v, s.HOST_AT] != s.NO_COPY


@inlined
def _discard(D: DryRun, v: int) -> None:
    if _is_copied(D, v):
        D.copies[v, s.HOST_AT] = s.NO_COPY
        D.K[D_HOST_USED] -= D.V[v, s.BYTES]


@inlined
def _wait(D: DryRun, until: int) -> None:
    if until > D.K[D_TIME]:
        D.K[D_STALL] += until - D.K[D_TIME]
        D.K[D_TIME] = until


@inlined
def _give(D: DryRun, v: int, mine: int, other: int, row: int) -> int:
    """Give a copy of v to an engine; planned in this row of D.away, or -1. When it ends."""
    start = max(D.K[D_TIME], D.K[mine])
    shared = max(0, D.K[other] - start)
    D.K[mine] = start + copy_ns(D.copies[v, s.COPY_NS], shared, D.K[D_RATE], D.K[D_SHARED_RATE])
    if row >= 0:
        D.away[row, s.A_START] = start
        D.away[row, s.A_END] = D.K[mine]
    return D.K[mine]


@kernel
def _fetch(D: DryRun, v: int, row: int) -> None:
    """v comes back from the host: its residency begins after the last run of an op."""
    _come(D, v)
    if D.X[v, RESIDENCY] < D.Q.shape[0]:
        D.Q[D.X[v, RESIDENCY], Q_FROM] = 2 * D.K[D_RUNS] + 1
    D.copies[v, s.FETCHED_AT] = _give(D, v, D_IN_FREE, D_OUT_FREE, row)


@kernel
def _copy(D: DryRun, op: int) -> bool:
    """The copies that are planned before op (replay/copies_by_plan.py). False: the host has no room for one."""
    D.begin[op] = D.K[D_TIME]
    left = False
    while D.K[D_AWAY] < D.K[D_AWAYS] and D.away[D.K[D_AWAY], s.A_OP] <= op:
        row = D.K[D_AWAY]
        v = D.away[row, s.A_VALUE]
        if D.away[row, s.A_BACK]:
            if not left:
                _leave_when_copied(D)
                left = True
            D.copies[v, s.LEAVES] = 0
            if D.X[v, HERE] == 0 and _is_copied(D, v):
                _fetch(D, v, row)
        elif D.X[v, HERE]:
            if not _is_copied(D, v):
                D.K[D_HOST_USED] += D.V[v, s.BYTES]
                if D.K[D_HOST_USED] > D.K[D_HOST_BUDGET]:
                    return False
                D.copies[v, s.HOST_AT] = _give(D, v, D_OUT_FREE, D_IN_FREE, row)
            D.copies[v, s.LEAVES] = 1
        D.K[D_AWAY] += 1
    if not left:
        _leave_when_copied(D)
    return True


@kernel
def _leave_when_copied(D: DryRun) -> None:
    while D.K[D_LEFT] < D.K[D_AWAY]:
        v = D.away[D.K[D_LEFT], s.A_VALUE]
        if D.away[D.K[D_LEFT], s.A_BACK] == 0 and D.copies[v, s.LEAVES]:
            if D.copies[v, s.HOST_AT] > D.K[D_TIME]:
                return
            D.copies[v, s.LEAVES] = 0
            if D.X[v, HERE] and _is_copied(D, v):
                _leave(D, v)
        D.K[D_LEFT] += 1


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
def _come(D: DryRun, v: int) -> None:
    D.X[v, HERE] = 1
    D.X[v, SINCE] = now = D.K[D_NOW]
    if D.back[D.X[v, INTERVAL]] < 0 and now != D.V[v, s.PRODUCER]:
        D.back[D.X[v, INTERVAL]] = now
    D.K[D_BYTES] += D.V[v, s.BYTES]
    residency = D.K[D_RESIDENCIES]
    D.K[D_RESIDENCIES] += 1
    D.X[v, RESIDENCY] = residency
    if residency < D.Q.shape[0]:
        D.Q[residency, Q_VALUE] = v
        D.Q[residency, Q_BYTES] = D.V[v, s.BYTES]
        D.Q[residency, Q_FROM] = 2 * D.K[D_RUNS]
        D.Q[residency, Q_UNTIL] = -1


@inlined
def _go(D: DryRun, v: int) -> None:
    _discard(D, v)
    _leave(D, v)


@inlined
def _leave(D: DryRun, v: int) -> None:
    """The host's copy stays."""
    D.X[v, HERE] = 0
    D.K[D_BYTES] -= D.V[v, s.BYTES]
    residency = D.X[v, RESIDENCY]
    if residency < D.Q.shape[0]:
        D.Q[residency, Q_UNTIL] = 2 * D.K[D_RUNS] + 1


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
                if _is_copied(D, D.ins[k]):
                    _fetch(D, D.ins[k], -1)
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
            if D.X[v, HERE] == 0 and not _is_copied(D, v):
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
            _come(D, w)
    D.peak[op] = max(D.peak[op], D.K[D_BYTES])
    if D.copies.shape[0] > 0:
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            _wait(D, D.copies[D.ins[k], s.FETCHED_AT])
        D.K[D_TIME] += D.O[p, s.COST]
    for k in range(D.O[p, s.OUTS], D.O[p, s.TEMPS]):
        w = D.outs[k]
        if D.X[w, HERE] == 0:  # in place
            older = D.V[w, s.OLDER]
            _discard(D, older)
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
