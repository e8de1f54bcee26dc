"""Take back decisions of a step that fits, as far as it fits without them and is the cheaper for it."""

from coopsim.kernel.jit import kernel
from coopsim.kernel.state import BYTES, EVICTABLE, INS, PRODUCER, USES_END
from coopsim.replay.periodic.rehearse import LEAVE, LEAVE_ONCE, R_COST, STAY, Rehearsal, rehearse
from coopsim.replay.periodic.select import (
    C_AFTER,
    C_BEFORE,
    C_OPEN,
    C_VALUE,
    Selection,
    cost_to_bring_back,
    exceeds,
    look_ahead,
)


@kernel
def prune(R: Rehearsal, S: Selection, budget: int) -> None:
    """Take back what turns out not to be needed, the dearest first."""
    rehearse(R)
    look_ahead(R, S)
    cost = R.K[R_COST]
    for g in range(S.C.shape[0]):
        S.score[g] = -1.0
        v = S.C[g, C_VALUE]
        if S.C[g, C_OPEN] and R.gaps[g] != STAY and (g < v + R.V[v, USES_END] or S.made[v] > 0):
            S.score[g] = cost_to_bring_back(R, S, g)
    refused = False  # what was rehearsed last
    while True:
        best, most = -1, -0.5
        for g in range(S.C.shape[0]):
            if S.score[g] > most:
                best, most = g, S.score[g]
        if best < 0:
            break
        S.score[best] = -1.0
        before = R.gaps[best]
        if before == LEAVE_ONCE and refused:  # _may_stay looks at the last rehearsal
            rehearse(R)
            refused = False
        for decision in (STAY, LEAVE_ONCE):
            if before == LEAVE_ONCE and (decision == LEAVE_ONCE or not _may_stay(R, S, best, budget)):
                continue
            held = R.gaps[best]
            R.gaps[best] = decision
            if rehearse(R) and R.K[R_COST] < cost and exceeds(R, budget) == 0.0:
                cost, refused = R.K[R_COST], False
            else:
                R.gaps[best] = held
                refused = True


@kernel
def _may_stay(R: Rehearsal, S: Selection, g: int, budget: int) -> bool:
    """Whether there may be room for the value while it is gone, as last rehearsed.

    Sure unless something stays for its sake, and would go.
    """
    v = S.C[g, C_VALUE]
    nbytes, op = R.V[v, BYTES], R.V[v, PRODUCER]
    for k in range(R.O[op, INS], R.O[op + 1, INS]):
        u = R.ins[k]
        if R.V[u, EVICTABLE] and R.gaps[u + R.V[u, USES_END]] != LEAVE:
            return True
    room = True
    for op in range(S.C[g, C_AFTER] + 1, min(S.C[g, C_BEFORE], R.back[g])):
        room &= R.peak[op] + nbytes <= budget
    return room
