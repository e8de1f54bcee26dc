"""The pool of storages that can be evicted, in simrd's order, which decides ties.

A storage goes to the end when it comes (back) to memory and when its last lock goes. simrd keeps a Python list and
removes by search; this is a linked list.
"""

from coopsim.kernel.jit import inlined
from coopsim.simrd.state import K_HEAD, K_MAX_POOL, K_POOL, K_TAIL, LOCKS, NEXT, PREV, State


@inlined
def enter(S: State, s: int) -> None:
    """s becomes the last of the pool."""
    tail = S.K[K_TAIL]
    S.V[s, PREV] = tail
    S.V[s, NEXT] = -1
    if tail >= 0:
        S.V[tail, NEXT] = s
    else:
        S.K[K_HEAD] = s
    S.K[K_TAIL] = s
    S.K[K_POOL] += 1
    S.K[K_MAX_POOL] = max(S.K[K_MAX_POOL], S.K[K_POOL])


@inlined
def leave(S: State, s: int) -> None:
    """s leaves the pool."""
    before, after = S.V[s, PREV], S.V[s, NEXT]
    if before >= 0:
        S.V[before, NEXT] = after
    else:
        S.K[K_HEAD] = after
    if after >= 0:
        S.V[after, PREV] = before
    else:
        S.K[K_TAIL] = before
    S.K[K_POOL] -= 1


@inlined
def lock(S: State, s: int) -> None:
    """One lock more on s, which is in memory; an op locks an argument as often as it has it."""
    if S.V[s, LOCKS] == 0:
        leave(S, s)
    S.V[s, LOCKS] += 1


@inlined
def unlock(S: State, s: int) -> None:
    """One lock less; with the last, s goes to the end of the pool."""
    S.V[s, LOCKS] -= 1
    if S.V[s, LOCKS] == 0:
        enter(S, s)
