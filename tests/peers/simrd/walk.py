"""Walks over the evicted neighbourhood of a storage, and the sums of its regions (regions.py) made of them."""

from coopsim.simulate.kernel.jit import inlined, kernel
from tests.peers.simrd import state as s


@kernel
def walk(S: s.SimrdState, v: int, first: int, since: int, cost: int, stamp: int) -> int:
    """Cost (column `cost`) of the evicted storages that v reaches through neighbours of column `first`.

    Goes by edges up to op `since`, and past storages marked with `stamp`, with which it marks those that it counts.
    """
    V, G, stack = S.V, S.G, S.stack
    total, depth = 0, 1
    stack[0] = v
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if G[k, s.SINCE] > since:
                break
            y = G[k, s.END]
            if V[y, s.MATERIAL] == 0 and V[y, s.MARK] != stamp:
                V[y, s.MARK] = stamp
                total += V[y, cost]
                stack[depth] = y
                depth += 1
    return total


@kernel
def edge(S: s.SimrdState, v: int, first: int) -> int:
    """Collect in S.edge the unpinned storages in memory around the region of v, and mark them; returns how many."""
    V, G, stack = S.V, S.G, S.stack
    stamp = new_stamp(S)
    found, depth = 0, 1
    stack[0] = v
    V[v, s.MARK] = stamp
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if G[k, s.SINCE] > S.K[s.K_OP]:
                break
            y = G[k, s.END]
            if V[y, s.MARK] == stamp:
                continue
            V[y, s.MARK] = stamp
            if V[y, s.MATERIAL] == 0:
                stack[depth] = y
                depth += 1
            elif V[y, s.PINNED] == 0:
                S.edge[found] = y
                found += 1
    return found


@inlined
def new_stamp(S: s.SimrdState) -> int:
    """A mark that no storage bears yet."""
    S.K[s.K_STAMP] += 1
    return S.K[s.K_STAMP]


@kernel
def refresh_down(S: s.SimrdState, v: int) -> None:
    """Sum DOWN: a walk over what was there before the running op, and that op's results if v sees them."""
    S.V[v, s.DOWN] = walk(S, v, s.CHILDREN, S.K[s.K_SINCE], s.KNOWN, new_stamp(S))
    if S.V[v, s.STALE] & s.SEES_NEW:
        S.V[v, s.DOWN] += cost_of_new(S)
    S.V[v, s.STALE] &= ~s.DOWN_STALE


@kernel
def refresh_up(S: s.SimrdState, v: int) -> None:
    """Sum UP: a walk over what was there before the running op."""
    S.V[v, s.UP] = walk(S, v, s.PARENTS, S.K[s.K_SINCE], s.KNOWN, new_stamp(S))
    S.V[v, s.STALE] &= ~s.UP_STALE


@inlined
def cost_of_new(S: s.SimrdState) -> int:
    """Cost of the storages that the running op makes."""
    total = 0
    for v in range(S.K[s.K_NEW], S.K[s.K_BORN]):
        total += S.V[v, s.COMPUTE]
    return total
