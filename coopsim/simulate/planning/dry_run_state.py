"""What a dry run reads and counts: the program, decisions for each idle interval, and the iteration that results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined
from coopsim.simulate.kernel.reference import Bundle
from coopsim.simulate.planning.program import NEVER
from coopsim.simulate.planning.request import Copying

# X: a row per value. INTERVAL: its current idle interval. RESIDENCY: its number. NEED: the last op that
# it was an input for, of its own or of one that ran again for it. SINCE: the op for which it came last. FOR_OTHERS: how
# often it was made again when it waited for no use of its own.
HERE, HOLDS, INTERVAL, RESIDENCY, NEED, SINCE, FOR_OTHERS = range(7)
X_COLUMNS = 7

# Q: a row per residency, in the order of requests. FROM and UNTIL count op runs, two for each. LEFT: how many had
# begun when it ended.
Q_VALUE, Q_BYTES, Q_FROM, Q_UNTIL, Q_LEFT = range(5)
Q_COLUMNS = 5

# K: cost, residencies and op runs, bytes now; a stamp for walks, how many dry runs there were, whether an op is in
# place on its first run only, the op now; the op runs of all dry runs.
D_COST, D_RESIDENCIES, D_RUNS, D_BYTES, D_STAMP, D_COUNT, D_FIRST_RUN, D_NOW, D_OPS = range(9)
D_SIZE = 9

# T: the time, and how much of it is stall; what the engines are busy with; rates; the host's bytes; how many copies are
# planned, and how far they have got (kernel/state.py: K_AWAY, K_LEFT).
(
    T_TIME,
    T_STALL,
    T_OUT_FREE,
    T_IN_FREE,
    T_RATE,
    T_SHARED_RATE,
    T_HOST_BUDGET,
    T_HOST_USED,
    T_AWAYS,
    T_AWAY,
    T_LEFT,
    T_OUT_BUSY,  # the engines, when the iteration begins
    T_IN_BUSY,
    T_LEAVING,  # whether values have to be on the host when the iteration ends
) = range(14)
T_SIZE = 14


class ProgramArrays(Bundle):
    """The program of a replay's state, which nothing changes (kernel/state.py has the columns)."""

    V: s.Array
    O: s.Array  # noqa: E741
    ins: s.Array
    outs: s.Array
    uses: s.Array
    initial: s.Array
    E: s.Array


class Decided(Bundle):
    """What is decided about values; dry runs read it."""

    decisions: NDArray[np.int8]  # of each interval
    until: s.Array  # of each value: the op until which it may stay in its last interval


class TimedCopies(Bundle):
    """The copies that are planned, and the time as a dry run goes on with them; no rows: nothing is copied."""

    away: s.Array  # room for planned copies (kernel/state.py), T_AWAYS of them
    copies: s.Array  # as there
    copied: s.Array  # HOST_AT of each value at the start
    begin: s.Array  # of each op of the program, the time when its copies are due
    T: s.Array


class DryRunCounts(Bundle):
    """What a dry run counts, and room for that."""

    back: s.Array  # of each interval: the first op for which its value came back before it ended, -1: none
    X: NDArray[np.int32]  # half the memory to go through
    peak: s.Array  # most bytes while each op of the program is served
    spare: s.Array  # bytes that nothing needs from each op on: the change
    pending: s.Array
    stack: s.Array
    Q: s.Array  # empty: residencies are not recorded
    K: s.Array


class DryRun(ProgramArrays, Decided, TimedCopies, DryRunCounts):
    """All of it. A function that takes one of its parts uses no other."""


def new_dry_run(program: Any, *, first_run: bool = False, copying: Copying | None = None) -> DryRun:
    """For the program of a replay (planning.program.Program). Residencies are recorded once Q has been given rows."""
    values, n_ops = len(program.values), len(program.ops) - 1
    K, T = np.zeros(D_SIZE, np.int64), np.zeros(T_SIZE, np.int64)
    K[D_FIRST_RUN] = first_run
    n_away, initial = 0, program.initial
    if copying is not None:
        initial = initial[~np.isin(initial, copying.absent)]
        T[T_LEAVING] = len(copying.leaving) > 0
        T[T_RATE], T[T_SHARED_RATE] = copying.rate_mb_s, copying.shared_rate_mb_s
        T[T_HOST_BUDGET] = copying.host_budget
        T[T_OUT_BUSY], T[T_IN_BUSY] = copying.out_busy, copying.in_busy
        n_away = 3 * (len(program.uses) + values)
    return DryRun(
        V=program.values,
        O=program.ops,
        ins=program.ins,
        outs=program.outs,
        uses=program.uses,
        initial=initial,
        E=program.events,
        decisions=np.zeros(len(program.uses) + values, np.int8),
        back=np.zeros(len(program.uses) + values, np.int64),
        until=np.full(values, NEVER),
        X=np.zeros((values, X_COLUMNS), np.int32),
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
        T=T,
    )


@inlined
def come(D: DryRun, v: int) -> None:
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
def leave(D: DryRun, v: int) -> None:
    """The host's copy stays."""
    D.X[v, HERE] = 0
    D.K[D_BYTES] -= D.V[v, s.BYTES]
    residency = D.X[v, RESIDENCY]
    if residency < D.Q.shape[0]:
        D.Q[residency, Q_UNTIL] = 2 * D.K[D_RUNS] + 1
        D.Q[residency, Q_LEFT] = D.K[D_RESIDENCIES]


@inlined
def is_copied(D: TimedCopies, v: int) -> bool:
    return D.copies.shape[0] > 0 and D.copies[v, s.HOST_AT] != s.NO_COPY


@inlined
def discard(D: DryRun, v: int) -> None:
    if is_copied(D, v):
        D.copies[v, s.HOST_AT] = s.NO_COPY
        D.T[T_HOST_USED] -= D.V[v, s.BYTES]
