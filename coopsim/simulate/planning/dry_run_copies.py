"""Copies to and from the host in a dry run, by the plan: engines, the host's bytes, and what the ops wait for.

As replay/run_op.py does it in a replay, which however takes a plan as it comes: there a copy that cannot be
made is left out, as nothing may exceed the host's memory. Here one for which the host has no room ends the plan, before
a replay has it; and no more is asked, because only what may be offloaded is planned to be, while it has uses left, and
between two ops nothing is pinned. So of a plan that is followed, all copies are made.
"""

from coopsim.cards import engine
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run_state import (
    D_RUNS,
    HERE,
    Q_FROM,
    RESIDENCY,
    T_AWAY,
    T_AWAYS,
    T_HOST_BUDGET,
    T_HOST_USED,
    T_IN_FREE,
    T_LEFT,
    T_OUT_FREE,
    T_RATE,
    T_SHARED_RATE,
    T_STALL,
    T_TIME,
    DryRun,
    TimedCopies,
    come,
    is_copied,
    leave,
)

_span = inlined(engine.span)


@inlined
def wait(D: TimedCopies, until: int) -> None:
    if until > D.T[T_TIME]:
        D.T[T_STALL] += until - D.T[T_TIME]
        D.T[T_TIME] = until


@inlined
def _give(D: TimedCopies, v: int, mine: int, other: int, row: int) -> int:
    """Give a copy of v to an engine; planned in this row of D.away, or -1. When it ends."""
    T = D.T
    start, end = _span(T[T_TIME], T[mine], T[other], D.copies[v, s.COPY_NS], T[T_RATE], T[T_SHARED_RATE])
    T[mine] = end
    if row >= 0:
        D.away[row, s.A_START] = start
        D.away[row, s.A_END] = end
    return end


@kernel
def fetch(D: DryRun, v: int, row: int) -> None:
    """v comes back from the host: its residency begins after the last run of an op."""
    come(D, v)
    if D.X[v, RESIDENCY] < D.Q.shape[0]:
        D.Q[D.X[v, RESIDENCY], Q_FROM] = 2 * D.K[D_RUNS] + 1
    D.copies[v, s.FETCHED_AT] = _give(D, v, T_IN_FREE, T_OUT_FREE, row)


@kernel
def copy_before(D: DryRun, op: int) -> bool:
    """The copies that are planned before op (replay/run_op.py). False: the host has no room for one."""
    D.begin[op] = D.T[T_TIME]
    left = False
    while D.T[T_AWAY] < D.T[T_AWAYS] and D.away[D.T[T_AWAY], s.A_OP] <= op:
        row = D.T[T_AWAY]
        v = D.away[row, s.A_VALUE]
        if D.away[row, s.A_WHAT] == s.BACK:
            if not left:
                leave_when_copied(D, -1)
                left = True
            D.copies[v, s.LEAVES] = 0
            if D.X[v, HERE] == 0 and is_copied(D, v):
                fetch(D, v, row)
        elif D.away[row, s.A_WHAT] == s.LEFT:
            leave_when_copied(D, v)
        elif D.X[v, HERE]:
            if not is_copied(D, v):
                D.T[T_HOST_USED] += D.V[v, s.BYTES]
                if D.T[T_HOST_USED] > D.T[T_HOST_BUDGET]:
                    return False
                D.copies[v, s.HOST_AT] = _give(D, v, T_OUT_FREE, T_IN_FREE, row)
            D.copies[v, s.LEAVES] = 1
        D.T[T_AWAY] += 1
    if not left:
        leave_when_copied(D, -1)
    return True


@kernel
def leave_when_copied(D: DryRun, awaited: int) -> None:
    while D.T[T_LEFT] < D.T[T_AWAY]:
        v = D.away[D.T[T_LEFT], s.A_VALUE]
        if D.away[D.T[T_LEFT], s.A_WHAT] == s.OUT and D.copies[v, s.LEAVES]:
            if awaited >= 0 and D.copies[awaited, s.LEAVES]:
                wait(D, D.copies[v, s.HOST_AT])
            if D.copies[v, s.HOST_AT] > D.T[T_TIME]:
                return
            D.copies[v, s.LEAVES] = 0
            if D.X[v, HERE] and is_copied(D, v):
                leave(D, v)
        D.T[T_LEFT] += 1
