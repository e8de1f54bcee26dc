"""Copies to and from the host in a dry run, by the plan: engines, the host's bytes, and what the ops wait for.

As replay/copies_by_plan.py does it in a replay, which however takes a plan as it comes: there a copy that cannot be
made is left out, as nothing may exceed the host's memory. Here one for which the host has no room ends the plan, before
a replay has it; and no more is asked, because only what may be offloaded is planned to be, while it has uses left, and
between two ops nothing is pinned. So of a plan that is followed, all copies are made.
"""

from coopsim.kernel import engine
from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.planning.dry_run_state import (
    D_AWAY,
    D_AWAYS,
    D_HOST_BUDGET,
    D_HOST_USED,
    D_IN_FREE,
    D_LEFT,
    D_OUT_FREE,
    D_RATE,
    D_RUNS,
    D_SHARED_RATE,
    D_STALL,
    D_TIME,
    HERE,
    Q_FROM,
    RESIDENCY,
    DryRun,
    come,
    is_copied,
    leave,
)

_span = inlined(engine.span)


@inlined
def wait(D: DryRun, until: int) -> None:
    if until > D.K[D_TIME]:
        D.K[D_STALL] += until - D.K[D_TIME]
        D.K[D_TIME] = until


@inlined
def _give(D: DryRun, v: int, mine: int, other: int, row: int) -> int:
    """Give a copy of v to an engine; planned in this row of D.away, or -1. When it ends."""
    K = D.K
    start, end = _span(K[D_TIME], K[mine], K[other], D.copies[v, s.COPY_NS], K[D_RATE], K[D_SHARED_RATE])
    K[mine] = end
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
    D.copies[v, s.FETCHED_AT] = _give(D, v, D_IN_FREE, D_OUT_FREE, row)


@kernel
def copy_before(D: DryRun, op: int) -> bool:
    """The copies that are planned before op (replay/copies_by_plan.py). False: the host has no room for one."""
    D.begin[op] = D.K[D_TIME]
    left = False
    while D.K[D_AWAY] < D.K[D_AWAYS] and D.away[D.K[D_AWAY], s.A_OP] <= op:
        row = D.K[D_AWAY]
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
                D.K[D_HOST_USED] += D.V[v, s.BYTES]
                if D.K[D_HOST_USED] > D.K[D_HOST_BUDGET]:
                    return False
                D.copies[v, s.HOST_AT] = _give(D, v, D_OUT_FREE, D_IN_FREE, row)
            D.copies[v, s.LEAVES] = 1
        D.K[D_AWAY] += 1
    if not left:
        leave_when_copied(D, -1)
    return True


@kernel
def leave_when_copied(D: DryRun, awaited: int) -> None:
    while D.K[D_LEFT] < D.K[D_AWAY]:
        v = D.away[D.K[D_LEFT], s.A_VALUE]
        if D.away[D.K[D_LEFT], s.A_WHAT] == s.OUT and D.copies[v, s.LEAVES]:
            if awaited >= 0 and D.copies[awaited, s.LEAVES]:
                wait(D, D.copies[v, s.HOST_AT])
            if D.copies[v, s.HOST_AT] > D.K[D_TIME]:
                return
            D.copies[v, s.LEAVES] = 0
            if D.X[v, HERE] and is_copied(D, v):
                leave(D, v)
        D.K[D_LEFT] += 1
