"""What a replay asks of a plan while it follows one; the first surprise ends that for the iteration."""

from coopsim.simulate.allocators.at_address import carve_at
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, REQUEST_ADDRESS, REQUEST_VALUE
from coopsim.simulate.replay.evict import allocate, evict_to_host
from coopsim.simulate.replay.host import can_offload, fetch, offload, room_on_host, wait


@kernel
def take_planned(S: s.State, v: int) -> int:
    """The block that the plan has for v, the next value asked for; -1, and no plan any more, if it does not hold."""
    n = S.K[s.K_REQUEST]
    block = -1
    if n < S.requests.shape[0] and S.requests[n, REQUEST_VALUE] == v:
        block = carve_at(S, S.V[v, s.BYTES], S.requests[n, REQUEST_ADDRESS], v)
    S.K[s.K_REQUEST] = n + 1 if block >= 0 else -1
    return block


@inlined
def leaves(S: s.State, v: int, again: bool) -> bool:
    """Whether the plan has v leave now that it has been used or made (again)."""
    V = S.V
    if V[v, s.BLOCK] < 0 or V[v, s.PINS] > 0 or V[v, s.EVICTABLE] == 0:
        return False
    at = V[v, s.NEXT_AT]
    while at < V[v, s.USES_END] and (S.uses[at] < S.K[s.K_NOW] or (S.uses[at] == S.K[s.K_NOW] and not again)):
        at += 1
    V[v, s.NEXT_AT] = at
    decision = S.decisions[v + at]
    waits = at == V[v, s.USES_END]  # for no use of its own
    return decision == LEAVE or (decision == LEAVE_ONCE and not again) or (waits and not stays(S, v))


@inlined
def follows_plan(S: s.State) -> bool:
    """Whether a plan is followed: then it decides what leaves."""
    return S.K[s.K_REQUEST] >= 0


@inlined
def stays(S: s.State, v: int) -> bool:
    """Whether the plan has v stay, for which the program has no more use, to make others from it."""
    return S.until[v] > S.K[s.K_NOW]


@kernel
def copy_by_plan(S: s.State, op: int) -> bool:
    """Before op of the program is served: what is copied leaves, and the copies due begin. False: out of memory.

    planning/dry_run_copies.py goes through copies in the same order, and says what only a replay has to check.
    """
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
