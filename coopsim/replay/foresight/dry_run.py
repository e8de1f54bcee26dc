"""A dry run of an iteration by given decisions: what it recomputes, holds and asks for.

replay/plan.py says what can be decided. Everything else is as in a replay (docs/replay.md), without addresses.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
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
D_SIZE = 8


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
    K: s.Array


def new_dry_run(program: Any, *, first_run: bool = False) -> DryRun:
    """For the program of a replay (replay.lower.Program). Residencies are recorded once Q has been given rows."""
    values, n_ops = len(program.values), len(program.ops) - 1
    K = np.zeros(D_SIZE, np.int64)
    K[D_FIRST_RUN] = first_run
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
    for k in range(D.initial.shape[0]):
        _come(D, D.initial[k])
    for e in range(D.E.shape[0]):
        v = D.E[e, s.ID]
        if D.E[e, s.KIND] == s.RUN:
            D.K[D_NOW] = v
            if not _serve(D, v):
                return False
        elif D.X[v, HERE] and (D.E[e, s.KIND] == s.GONE or (D.E[e, s.KIND] == s.DROP and D.V[v, s.EVICTABLE] == 0)):
            _go(D, v)
    _take_off_spare(D)
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
            if D.X[v, HERE] == 0:
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
    for k in range(D.O[p, s.OUTS], D.O[p, s.TEMPS]):
        w = D.outs[k]
        if D.X[w, HERE] == 0:  # in place
            older = D.V[w, s.OLDER]
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
