"""Walks over the evicted neighbourhood of a storage, and the sums of its regions (regions.py) made of them."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.state import (
    AT,
    CHILDREN,
    COMPUTE,
    DOWN,
    DOWN_STALE,
    K_BORN,
    K_NEW,
    K_OP,
    K_SINCE,
    K_STAMP,
    KNOWN,
    MARK,
    MATERIAL,
    PARENTS,
    PINNED,
    SEES_NEW,
    SINCE,
    STALE,
    UP,
    UP_STALE,
    State,
)


@kernel
def walk(S: State, s: int, first: int, since: int, cost: int, stamp: int) -> int:
    """Cost (column `cost`) of the evicted storages that s reaches through neighbours of column `first`.

    Goes by edges up to op `since`, and past storages marked with `stamp`, with which it marks those that it counts.
    """
    V, G, stack = S.V, S.G, S.stack
    total, depth = 0, 1
    stack[0] = s
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if G[k, SINCE] > since:
                break
            y = G[k, AT]
            if V[y, MATERIAL] == 0 and V[y, MARK] != stamp:
                V[y, MARK] = stamp
                total += V[y, cost]
                stack[depth] = y
                depth += 1
    return total


@kernel
def edge(S: State, s: int, first: int) -> int:
    """Collect in S.edge the unpinned storages in memory around the region of s, and mark them; returns how many."""
    V, G, stack = S.V, S.G, S.stack
    stamp = new_stamp(S)
    found, depth = 0, 1
    stack[0] = s
    V[s, MARK] = stamp
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if G[k, SINCE] > S.K[K_OP]:
                break
            y = G[k, AT]
            if V[y, MARK] == stamp:
                continue
            V[y, MARK] = stamp
            if V[y, MATERIAL] == 0:
                stack[depth] = y
                depth += 1
            elif V[y, PINNED] == 0:
                S.edge[found] = y
                found += 1
    return found


@inlined
def new_stamp(S: State) -> int:
    """A mark that no storage bears yet."""
    S.K[K_STAMP] += 1
    return S.K[K_STAMP]


@kernel
def refresh_down(S: State, s: int) -> None:
    """Sum DOWN: a walk over what was there before the running op, and that op's results if s sees them."""
    S.V[s, DOWN] = walk(S, s, CHILDREN, S.K[K_SINCE], KNOWN, new_stamp(S))
    if S.V[s, STALE] & SEES_NEW:
        S.V[s, DOWN] += cost_of_new(S)
    S.V[s, STALE] &= ~DOWN_STALE


@kernel
def refresh_up(S: State, s: int) -> None:
    """Sum UP: a walk over what was there before the running op."""
    S.V[s, UP] = walk(S, s, PARENTS, S.K[K_SINCE], KNOWN, new_stamp(S))
    S.V[s, STALE] &= ~UP_STALE


@inlined
def cost_of_new(S: State) -> int:
    """Cost of the storages that the running op makes."""
    total = 0
    for s in range(S.K[K_NEW], S.K[K_BORN]):
        total += S.V[s, COMPUTE]
    return total
