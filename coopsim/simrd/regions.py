"""The evicted regions around a storage, whose costs e* adds up: below it (results made from it) and above (what it is
made from), each up to the nearest storages in memory.

simrd keeps for each storage in memory the sets of both regions, with their cost. Eviction of x lets the storages in
memory around x absorb x and the regions behind it; when an op brings storages back, it sums the regions of those and of
the storages in memory around them anew. Between ops these costs equal a walk over the evicted neighbourhood, so here
they are only marked stale, and summed when a score needs them.

While the program runs an op with missing arguments they differ: the op's results exist already, not in memory, with
their cost; and a view adds its cost to its storage. A region that simrd sums anew in that time counts both, one that it
does not sum counts neither. Then (K_EAGER) each event is followed as simrd does it, on sums as they were before. DOWN
has the bit SEES_NEW if the running op's results are in it.

simrd's view of a storage from arguments in several storages leaves its sets inconsistent; api.py refuses such traces.
"""

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.state import (
    AT,
    BOTH,
    CHILDREN,
    COMPUTE,
    DOWN,
    DOWN_STALE,
    K_BORN,
    K_EAGER,
    K_NEW,
    K_OP,
    K_REGIONS,
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
    Array,
    State,
)


@kernel
def _walk(S: State, s: int, first: int, since: int, cost: int, stamp: int) -> int:
    """Cost (column `cost`) of the evicted storages that s reaches through neighbours of column `first`.

    Goes by edges up to op `since`, and past storages marked with `stamp`, with which it marks those that it counts.
    """
    V, stack = S.V, S.stack
    total, depth = 0, 1
    stack[0] = s
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if S.G[k, SINCE] > since:
                break
            y = S.G[k, AT]
            if V[y, MATERIAL] == 0 and V[y, MARK] != stamp:
                V[y, MARK] = stamp
                total += V[y, cost]
                stack[depth] = y
                depth += 1
    return total


@kernel
def _edge(S: State, s: int, first: int) -> int:
    """Collect in S.edge the unpinned storages in memory around the region of s; returns how many."""
    V, stack = S.V, S.stack
    S.K[K_STAMP] += 1
    stamp = S.K[K_STAMP]
    found, depth = 0, 1
    stack[0] = s
    V[s, MARK] = stamp
    while depth > 0:
        depth -= 1
        x = stack[depth]
        for k in range(V[x, first], V[x + 1, first]):
            if S.G[k, SINCE] > S.K[K_OP]:
                break
            y = S.G[k, AT]
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
def _new_stamp(S: State) -> int:
    S.K[K_STAMP] += 1
    return S.K[K_STAMP]


@kernel
def refresh_down(S: State, s: int) -> None:
    """Sum DOWN, as it was before the running op."""
    S.V[s, DOWN] = _walk(S, s, CHILDREN, S.K[K_SINCE], KNOWN, _new_stamp(S))
    S.V[s, STALE] &= ~(DOWN_STALE | SEES_NEW)


@kernel
def refresh_up(S: State, s: int) -> None:
    """Sum UP, as it was before the running op."""
    S.V[s, UP] = _walk(S, s, PARENTS, S.K[K_SINCE], KNOWN, _new_stamp(S))
    S.V[s, STALE] &= ~UP_STALE


@inlined
def _sum_down_now(S: State, s: int) -> None:
    """Sum DOWN as simrd does in the middle of an op: the op's results, which are the newest storages, count."""
    stamp = _new_stamp(S)
    S.V[s, DOWN] = _walk(S, s, CHILDREN, S.K[K_OP], COMPUTE, stamp)
    S.V[s, STALE] &= ~(DOWN_STALE | SEES_NEW)
    if S.V[S.K[K_NEW], MARK] == stamp:
        S.V[s, STALE] |= SEES_NEW


@inlined
def _sum_up_now(S: State, s: int) -> None:
    """Sum UP as simrd does in the middle of an op."""
    S.V[s, UP] = _walk(S, s, PARENTS, S.K[K_OP], COMPUTE, _new_stamp(S))
    S.V[s, STALE] &= ~UP_STALE


@kernel
def absorb(S: State, x: int) -> None:
    """x is about to be evicted: the regions of the storages in memory around it grow. Call while it is in memory."""
    V, eager = S.V, S.K[K_EAGER] == 1
    n = _edge(S, x, CHILDREN)
    for k in range(n):
        y = S.edge[k]
        if not eager:
            V[y, STALE] |= UP_STALE
            continue
        if V[y, STALE] & UP_STALE:
            refresh_up(S, y)
        stamp = _new_stamp(S)
        _walk(S, y, PARENTS, S.K[K_SINCE], COMPUTE, stamp)
        V[y, UP] += V[x, COMPUTE] + _walk(S, x, PARENTS, S.K[K_SINCE], COMPUTE, stamp)
    if S.K[K_REGIONS] < BOTH:
        return
    n = _edge(S, x, PARENTS)
    for k in range(n):
        y = S.edge[k]
        if not eager:
            _must_sum_down(V, y)
            continue
        if V[y, STALE] & DOWN_STALE:
            refresh_down(S, y)
        stamp = _new_stamp(S)
        _walk(S, y, CHILDREN, S.K[K_SINCE], COMPUTE, stamp)
        V[y, DOWN] += V[x, COMPUTE] + _walk(S, x, CHILDREN, S.K[K_SINCE], COMPUTE, stamp)
        if V[x, STALE] & SEES_NEW and V[y, STALE] & SEES_NEW == 0:
            V[y, DOWN] += _cost_of_new(S)
            V[y, STALE] |= SEES_NEW


@inlined
def _must_sum_down(V: Array, s: int) -> None:
    V[s, STALE] = (V[s, STALE] | DOWN_STALE) & ~SEES_NEW


@inlined
def _cost_of_new(S: State) -> int:
    """Cost of the storages that the running op makes: those from K_NEW on that it is the maker of."""
    total = 0
    s = S.K[K_NEW]
    while s < S.K[K_BORN]:
        total += S.V[s, COMPUTE]
        s += 1
    return total


@kernel
def restore(S: State, s: int, last: bool) -> None:
    """s has come (back) to memory with all that its op makes: sum anew, or mark, its regions and those around it.

    last: the op is the program's own, after which nothing differs from a walk any more.
    """
    V, eager = S.V, S.K[K_EAGER] == 1 and not last
    V[s, UP] = 0  # all that it is made from is in memory
    V[s, STALE] &= ~UP_STALE
    n = _edge(S, s, CHILDREN)
    for k in range(n):
        if eager:
            _sum_up_now(S, S.edge[k])
        else:
            V[S.edge[k], STALE] |= UP_STALE
    if S.K[K_REGIONS] < BOTH:
        return
    if eager:
        _sum_down_now(S, s)
    else:
        _must_sum_down(V, s)
    n = _edge(S, s, PARENTS)
    for k in range(n):
        if eager:
            _sum_down_now(S, S.edge[k])
        else:
            _must_sum_down(V, S.edge[k])
