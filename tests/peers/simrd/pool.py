"""The pool of storages that can be evicted, in simrd's order, which decides ties.

A storage goes to the end when it comes (back) to memory and when its last lock goes. simrd keeps a Python list and
removes by search; this is a linked list.
"""

from coopsim.simulate.kernel.jit import inlined
from tests.peers.simrd import state as s


@inlined
def enter(S: s.SimrdState, v: int) -> None:
    """v becomes the last of the pool."""
    tail = S.K[s.K_TAIL]
    S.V[v, s.PREV] = tail
    S.V[v, s.NEXT] = -1
    if tail >= 0:
        S.V[tail, s.NEXT] = v
    else:
        S.K[s.K_HEAD] = v
    S.K[s.K_TAIL] = v
    S.K[s.K_POOL] += 1
    S.K[s.K_MAX_POOL] = max(S.K[s.K_MAX_POOL], S.K[s.K_POOL])


@inlined
def leave(S: s.SimrdState, v: int) -> None:
    """v leaves the pool."""
    before, after = S.V[v, s.PREV], S.V[v, s.NEXT]
    if before >= 0:
        S.V[before, s.NEXT] = after
    else:
        S.K[s.K_HEAD] = after
    if after >= 0:
        S.V[after, s.PREV] = before
    else:
        S.K[s.K_TAIL] = before
    S.K[s.K_POOL] -= 1


@inlined
def lock(S: s.SimrdState, v: int) -> None:
    """One lock more on v, which is in memory; an op locks an argument as often as it has it."""
    if S.V[v, s.LOCKS] == 0:
        leave(S, v)
    S.V[v, s.LOCKS] += 1


@inlined
def unlock(S: s.SimrdState, v: int) -> None:
    """One lock less; with the last, v goes to the end of the pool."""
    S.V[v, s.LOCKS] -= 1
    if S.V[v, s.LOCKS] == 0:
        enter(S, v)
