"""The copies of a plan: before which op each begins, and when a value that has been copied leaves.

planning/dry_run_copies.py goes through them in the same order, and says what only a replay has to check.
"""

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.replay.evict import allocate, evict_to_host
from coopsim.simulate.replay.host import can_offload, fetch, offload, room_on_host, wait
from coopsim.simulate.replay.plan import follows_plan


@kernel
def copy_by_plan(S: s.State, op: int) -> bool:
    """Before op of the program is served: what is copied leaves, and the copies due begin. False: out of memory."""
    left = False
    while S.K[s.K_AWAY] < S.away.shape[0] and S.away[S.K[s.K_AWAY], s.A_OP] <= op:
        at = S.K[s.K_AWAY]
        v = S.away[at, s.A_VALUE]
        if S.away[at, s.A_WHAT] == s.BACK:
            if not left:
                _leave_when_copied(S, -1)
                left = True
            S.copies[v, s.LEAVES] = 0
            if S.V[v, s.BLOCK] == s.ON_HOST:
                if not allocate(S, v):
                    return False
                fetch(S, v)
                if not follows_plan(S):
                    return True
        elif S.away[at, s.A_WHAT] == s.LEFT:
            _leave_when_copied(S, v)
        elif S.V[v, s.BLOCK] >= 0 and S.V[v, s.PINS] == 0 and can_offload(S, v, room_on_host(S)):
            if S.copies[v, s.HOST_AT] == s.NO_COPY:
                offload(S, v)
            S.copies[v, s.LEAVES] = 1
        S.K[s.K_AWAY] += 1
    if not left:
        _leave_when_copied(S, -1)
    return True


@kernel
def _leave_when_copied(S: s.State, awaited: int) -> None:
    """Evict what the plan has copied, in its order, up to the first copy that is not whole.

    The ops wait for those up to the value `awaited`, unless that is -1.
    """
    while S.K[s.K_LEFT] < S.K[s.K_AWAY]:
        v = S.away[S.K[s.K_LEFT], s.A_VALUE]
        if S.away[S.K[s.K_LEFT], s.A_WHAT] == s.OUT and S.copies[v, s.LEAVES]:
            if awaited >= 0 and S.copies[awaited, s.LEAVES]:
                wait(S, S.copies[v, s.HOST_AT])
            if S.copies[v, s.HOST_AT] > S.K[s.K_TOTAL]:
                return
            S.copies[v, s.LEAVES] = 0
            if S.V[v, s.BLOCK] >= 0 and S.copies[v, s.HOST_AT] != s.NO_COPY:
                evict_to_host(S, v)
        S.K[s.K_LEFT] += 1
