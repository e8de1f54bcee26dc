"""What a replay asks of a plan while it follows one; the first surprise ends that for the iteration."""

from coopsim.simulate.allocators.arena import list_holes
from coopsim.simulate.allocators.at_address import carve_in
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, REQUEST_ADDRESS, REQUEST_VALUE


@kernel
def take_planned(S: s.State, v: int) -> int:
    """The block that the plan has for v, the next value asked for; -1, and no plan any more, if it does not hold."""
    n = S.K[s.K_REQUEST]
    block = -1
    if n < S.requests.shape[0] and S.requests[n, REQUEST_VALUE] == v:
        hole = S.K[s.K_HEAD] if S.below[n] < 0 else S.P[S.blocks[S.below[n]], s.NEXT]
        block = carve_in(S, hole, S.V[v, s.BYTES], S.requests[n, REQUEST_ADDRESS], v)
    if block >= 0:
        S.blocks[S.initial.shape[0] + n] = block
        S.K[s.K_REQUEST] = n + 1
    else:
        leave_plan(S)
    return block


@kernel
def leave_plan(S: s.State) -> None:
    """No plan is followed from here on."""
    if S.K[s.K_REQUEST] >= 0:
        S.K[s.K_REQUEST] = -1
        list_holes(S)


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
