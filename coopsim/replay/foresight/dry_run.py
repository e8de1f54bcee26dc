"""Rehearse a round of the trace, decisions given for each stretch of idleness: what it recomputes, holds and asks for.

replay/plan.py says what can be decided. Everything else is as in a replay (docs/replay.md), without addresses.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
from coopsim.kernel.state import (
    BYTES,
    DECIDE,
    DROP,
    EVICTABLE,
    ID,
    INS,
    KIND,
    OLDER,
    OUTS,
    PRODUCER,
    RUN,
    TEMPS,
    USES,
    USES_END,
    Array,
)
from coopsim.replay.lower import NEVER
from coopsim.replay.plan import LEAVE, LEAVE_ONCE

# X: a row a value. AT: its current gap. STAY_NO: the number of its stay in memory. NEED: the last op that it was an
# input for, of its own or of one that ran again for it. SINCE: the op for which it came last.
# FOR_OTHERS: how often it was made again when it waited for no use of its own.
HERE, HOLDS, AT, STAY_NO, NEED, SINCE, FOR_OTHERS = range(7)
X_COLUMNS = 7

# Q: a row a stay in memory, in the order of requests. FROM and UNTIL count op runs, two a run.
Q_VALUE, Q_BYTES, Q_FROM, Q_UNTIL = range(4)
Q_COLUMNS = 4

# K: cost, stays and op runs of the round, bytes now; a stamp for walks, how often it was rehearsed, whether results are
# made in place, the op now.
R_COST, R_STAYS, R_RUNS, R_BYTES, R_STAMP, R_COUNT, R_IN_PLACE, R_NOW = range(8)
R_SIZE = 8


class Rehearsal(Bundle):
    """The program of a replay's state, decisions, and room to count in."""

    V: Array
    O: Array  # noqa: E741
    ins: Array
    outs: Array
    uses: Array
    initial: Array
    E: Array
    gaps: NDArray[np.int8]  # the decisions
    back: Array  # of each gap: the first op for which its value came back before it ended, -1: none
    until: Array  # of each value: the op until which it may stay in its last gap
    X: Array
    peak: Array  # most bytes while each op of the program is served
    spare: Array  # bytes that nothing needs from each op on: the change
    planned: Array
    stack: Array
    Q: Array  # empty: stays are not recorded
    K: Array


def rehearsal(program: Any, *, in_place: bool) -> Rehearsal:
    """For the program of a replay (replay.lower.Program). Stays are recorded once Q has been given rows."""
    values, n_ops = len(program.values), len(program.ops) - 1
    K = np.zeros(R_SIZE, np.int64)
    K[R_IN_PLACE] = in_place
    return Rehearsal(
        V=program.values,
        O=program.ops,
        ins=program.ins,
        outs=program.outs,
        uses=program.uses,
        initial=program.initial,
        E=program.events,
        gaps=np.zeros(len(program.uses) + values, np.int8),
        back=np.zeros(len(program.uses) + values, np.int64),
        until=np.full(values, NEVER),
        X=np.zeros((values, X_COLUMNS), np.int64),
        peak=np.zeros(n_ops, np.int64),
        spare=np.zeros(n_ops + 1, np.int64),
        planned=np.zeros(n_ops + 1, np.int64),
        stack=np.zeros(n_ops + 1, np.int64),
        Q=np.zeros((0, Q_COLUMNS), np.int64),
        K=K,
    )


@kernel
def rehearse(R: Rehearsal) -> bool:
    """Go through the round. R.K[R_COST] is the decision cost of recomputations, R.peak the bytes. False: lost."""
    for v in range(R.V.shape[0]):
        R.X[v, HERE] = R.X[v, HOLDS] = R.X[v, FOR_OTHERS] = 0
        R.X[v, AT] = v + R.V[v, USES]
        R.X[v, NEED] = R.X[v, SINCE] = -1
    for g in range(R.back.shape[0]):
        R.back[g] = -1
    for op in range(R.spare.shape[0]):
        R.spare[op] = 0
    R.K[R_COST] = R.K[R_STAYS] = R.K[R_RUNS] = R.K[R_BYTES] = 0
    R.K[R_NOW] = -1
    R.K[R_COUNT] += 1
    for k in range(R.initial.shape[0]):
        _come(R, R.initial[k])
    for e in range(R.E.shape[0]):
        v = R.E[e, ID]
        if R.E[e, KIND] == RUN:
            R.K[R_NOW] = v
            if not _serve(R, v):
                return False
        elif R.E[e, KIND] == DROP and R.X[v, HERE] and R.V[v, EVICTABLE] == 0:
            _go(R, v)
    _take_off_spare(R)
    return True


@inlined
def _take_off_spare(R: Rehearsal) -> None:
    """Values that stayed for others, without an end to that in R.until, count up to the last op that needed them."""
    for v in range(R.V.shape[0]):
        if R.X[v, HERE] and R.V[v, EVICTABLE] and R.X[v, AT] == v + R.V[v, USES_END]:
            R.spare[max(R.X[v, NEED], R.X[v, SINCE]) + 1] += R.V[v, BYTES]
    spare = 0
    for op in range(R.peak.shape[0]):
        spare += R.spare[op]
        R.peak[op] -= spare


@inlined
def _come(R: Rehearsal, v: int) -> None:
    R.X[v, HERE] = 1
    R.X[v, SINCE] = now = R.K[R_NOW]
    if R.back[R.X[v, AT]] < 0 and now != R.V[v, PRODUCER]:
        R.back[R.X[v, AT]] = now
    R.K[R_BYTES] += R.V[v, BYTES]
    stay = R.K[R_STAYS]
    R.K[R_STAYS] += 1
    R.X[v, STAY_NO] = stay
    if stay < R.Q.shape[0]:
        R.Q[stay, Q_VALUE] = v
        R.Q[stay, Q_BYTES] = R.V[v, BYTES]
        R.Q[stay, Q_FROM] = 2 * R.K[R_RUNS]
        R.Q[stay, Q_UNTIL] = -1


@inlined
def _go(R: Rehearsal, v: int) -> None:
    R.X[v, HERE] = 0
    R.K[R_BYTES] -= R.V[v, BYTES]
    stay = R.X[v, STAY_NO]
    if stay < R.Q.shape[0]:
        R.Q[stay, Q_UNTIL] = 2 * R.K[R_RUNS] + 1


@kernel
def _serve(R: Rehearsal, op: int) -> bool:
    """Run op, and before it those that make its missing inputs, depth first (run_op.py)."""
    if not _hold(R, op):
        return False
    R.peak[op] = 0
    stack, depth = R.stack, 1
    stack[0] = op
    while depth > 0:
        p = stack[depth - 1]
        missing = -1
        for k in range(R.O[p, INS], R.O[p + 1, INS]):
            if R.X[R.ins[k], HERE] == 0:
                missing = R.ins[k]
                break
        if missing >= 0:
            stack[depth] = R.V[missing, PRODUCER]
            depth += 1
        else:
            _execute(R, p, op)
            depth -= 1
    return True


@inlined
def _hold(R: Rehearsal, op: int) -> bool:
    stack, depth = R.stack, 1
    stack[0] = op
    R.planned[op] = 1
    while depth > 0:
        depth -= 1
        p = stack[depth]
        for k in range(R.O[p, INS], R.O[p + 1, INS]):
            v = R.ins[k]
            R.X[v, HOLDS] += 1
            if R.X[v, HERE] == 0:
                producer = R.V[v, PRODUCER]
                if producer < 0:
                    return False
                if R.planned[producer] == 0:
                    R.planned[producer] = 1
                    stack[depth] = producer
                    depth += 1
    return True


@kernel
def _execute(R: Rehearsal, p: int, op: int) -> None:
    again = p != op
    R.planned[p] = 0
    R.K[R_RUNS] += 1
    for k in range(R.O[p, OUTS], R.O[p + 1, OUTS]):
        w = R.outs[k]
        R.X[w, HOLDS] += 1
        older = R.V[w, OLDER]
        if again and R.X[w, HERE] == 0 and R.X[w, AT] == w + R.V[w, USES_END]:
            R.X[w, FOR_OTHERS] += 1
        if R.X[w, HERE] == 0 and (R.K[R_IN_PLACE] == 0 or older < 0 or R.X[older, HOLDS] != 1):
            _come(R, w)
    R.peak[op] = max(R.peak[op], R.K[R_BYTES])
    for k in range(R.O[p, OUTS], R.O[p, TEMPS]):
        w = R.outs[k]
        if R.X[w, HERE] == 0:  # in place
            older = R.V[w, OLDER]
            R.X[older, HERE] = 0
            R.X[w, HERE] = 1
            R.X[w, SINCE] = op
            R.X[w, STAY_NO] = R.X[older, STAY_NO]
    if again:
        R.K[R_COST] += R.O[p, DECIDE]
    for k in range(R.O[p, TEMPS], R.O[p + 1, OUTS]):
        R.X[R.outs[k], HOLDS] -= 1
        _go(R, R.outs[k])
    for k in range(R.O[p, OUTS], R.O[p, TEMPS]):
        _let_go(R, R.outs[k], again)
    for k in range(R.O[p, INS], R.O[p + 1, INS]):
        v = R.ins[k]
        if not again:
            R.X[v, AT] += 1
        R.X[v, NEED] = op
        _let_go(R, v, again)


@inlined
def _let_go(R: Rehearsal, v: int, again: bool) -> None:
    R.X[v, HOLDS] -= 1
    if R.X[v, HOLDS] == 0 and R.X[v, HERE] and R.V[v, EVICTABLE]:
        decision = R.gaps[R.X[v, AT]]
        waits = R.X[v, AT] == v + R.V[v, USES_END]  # for no use of its own
        if decision == LEAVE or (decision == LEAVE_ONCE and not again) or (waits and R.until[v] <= R.K[R_NOW]):
            _go(R, v)
