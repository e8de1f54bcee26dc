"""Take back decisions of a round that fits, as far as it fits without them and is the cheaper for it."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import BYTES, DECIDE, OUTS, PRODUCER, TEMPS, USES, USES_END
from coopsim.replay.foresight.dry_run import R_COST, Rehearsal, rehearse
from coopsim.replay.foresight.select import (
    C_AFTER,
    C_BEFORE,
    C_OPEN,
    C_VALUE,
    Selection,
    cost_to_bring_back,
    exceeds,
    take_note,
)
from coopsim.replay.plan import LEAVE, LEAVE_ONCE, STAY


@kernel
def prune(R: Rehearsal, S: Selection, budget: int) -> None:
    """Take back what turns out not to be needed, the dearest first."""
    rehearse(R)
    take_note(R, S)
    cost = R.K[R_COST]
    for g in range(S.C.shape[0]):
        S.score[g] = -1.0
        if S.C[g, C_OPEN] and R.gaps[g] != STAY and _comes_back(R, S, g) > 0:
            own = float(R.O[R.V[S.C[g, C_VALUE], PRODUCER], DECIDE])
            S.score[g] = max(cost_to_bring_back(R, S, g), own)
    while True:
        best, most = -1, 0.0
        for g in range(S.C.shape[0]):
            if S.score[g] > most and R.gaps[g] != STAY:
                best, most = g, S.score[g]
        if best < 0:
            break
        S.score[best] = -1.0
        cost = _let_stay(R, S, best, budget, cost)
        if R.gaps[best] == LEAVE and _comes_back(R, S, best) > 1:
            cost = _let_leave_once(R, S, best, budget, cost)


@inlined
def _comes_back(R: Rehearsal, S: Selection, g: int) -> int:
    """How often the value does, as far as it matters: in its last gap, else in the gap and at its end."""
    v = S.C[g, C_VALUE]
    return S.made[v] if g == v + R.V[v, USES_END] else 2


@kernel
def _let_stay(R: Rehearsal, S: Selection, g: int, budget: int, cost: int) -> int:
    """Let the value stay, if that fits and is cheaper. Returns the cost, which is that of the last rehearsal noted.

    With it stays what else its op has made and is gone at that time: the op runs again while any of it is missing.
    What is not cheaper together is not tried with another of them in its place.
    """
    op, room, cheaper = R.V[S.C[g, C_VALUE], PRODUCER], True, True
    for k in range(R.O[op, OUTS], R.O[op, TEMPS]):
        w = R.outs[k]
        for h in range(w + R.V[w, USES], w + R.V[w, USES_END] + 1):
            S.held[h] = R.gaps[h]
            together = S.C[h, C_BEFORE] > S.C[g, C_AFTER] and S.C[h, C_AFTER] < S.C[g, C_BEFORE]
            if S.C[h, C_OPEN] and R.gaps[h] != STAY and together:
                R.gaps[h] = STAY
                room &= _may_stay(R, S, h, budget)
    if room:
        cheaper = rehearse(R) and R.K[R_COST] < cost
        if cheaper and exceeds(R, budget) == 0.0:
            take_note(R, S)
            return R.K[R_COST]
    for k in range(R.O[op, OUTS], R.O[op, TEMPS]):
        w = R.outs[k]
        for h in range(w + R.V[w, USES], w + R.V[w, USES_END] + 1):
            if R.gaps[h] != S.held[h]:
                R.gaps[h] = S.held[h]
                if not cheaper:
                    S.score[h] = -1.0
    return cost


@kernel
def _may_stay(R: Rehearsal, S: Selection, g: int, budget: int) -> bool:
    """Whether there may be room for the value as long as it is gone, if what waits until it comes back did not."""
    until = S.back[g] if S.back[g] >= 0 else S.C[g, C_BEFORE]
    nbytes = R.V[S.C[g, C_VALUE], BYTES] - S.waiting[until]
    room = True
    for op in range(S.C[g, C_AFTER] + 1, until):
        room &= S.peak[op] + nbytes <= budget
    return room


@kernel
def _let_leave_once(R: Rehearsal, S: Selection, g: int, budget: int, cost: int) -> int:
    """Let the value stay from when it first comes back, if that fits and is cheaper. Returns the cost as above."""
    R.gaps[g] = LEAVE_ONCE
    if rehearse(R) and R.K[R_COST] < cost and exceeds(R, budget) == 0.0:
        take_note(R, S)
        return R.K[R_COST]
    R.gaps[g] = LEAVE
    return cost
