"""Regions that follow each event at once, as simrd does it: for ops that lack arguments and make a view."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.state import (
    BOTH,
    CHILDREN,
    COMPUTE,
    DOWN,
    DOWN_STALE,
    K_NEW,
    K_OP,
    K_REGIONS,
    K_SINCE,
    MARK,
    PARENTS,
    SEES_NEW,
    STALE,
    UP,
    UP_STALE,
    State,
)
from coopsim.simrd.walk import cost_of_new, edge, new_stamp, refresh_down, refresh_up, walk


@kernel
def absorb_now(S: State, x: int) -> None:
    """x is about to be evicted: those around it take in x, and of the regions behind it what they lack."""
    V = S.V
    n = edge(S, x, CHILDREN)
    for k in range(n):
        y = S.edge[k]
        if V[y, STALE] & UP_STALE:
            refresh_up(S, y)
        stamp = new_stamp(S)
        walk(S, y, PARENTS, S.K[K_SINCE], COMPUTE, stamp)
        V[y, UP] += V[x, COMPUTE] + walk(S, x, PARENTS, S.K[K_SINCE], COMPUTE, stamp)
    if S.K[K_REGIONS] < BOTH:
        return
    n = edge(S, x, PARENTS)
    for k in range(n):
        y = S.edge[k]
        if V[y, STALE] & DOWN_STALE:
            refresh_down(S, y)
        stamp = new_stamp(S)
        walk(S, y, CHILDREN, S.K[K_SINCE], COMPUTE, stamp)
        V[y, DOWN] += V[x, COMPUTE] + walk(S, x, CHILDREN, S.K[K_SINCE], COMPUTE, stamp)
        if V[x, STALE] & SEES_NEW and V[y, STALE] & SEES_NEW == 0:
            V[y, DOWN] += cost_of_new(S)
            V[y, STALE] |= SEES_NEW


@kernel
def restore_now(S: State, s: int) -> None:
    """s is back: its regions, and those of the storages in memory around it, are summed anew."""
    S.V[s, UP] = 0  # all that it is made from is in memory
    S.V[s, STALE] &= ~UP_STALE
    n = edge(S, s, CHILDREN)
    for k in range(n):
        y = S.edge[k]
        S.V[y, UP] = walk(S, y, PARENTS, S.K[K_OP], COMPUTE, new_stamp(S))
        S.V[y, STALE] &= ~UP_STALE
    if S.K[K_REGIONS] == BOTH:
        _sum_down_now(S, s)
        n = edge(S, s, PARENTS)
        for k in range(n):
            _sum_down_now(S, S.edge[k])


@inlined
def _sum_down_now(S: State, s: int) -> None:
    """Sum DOWN as simrd does in the middle of an op: what the op makes counts."""
    stamp = new_stamp(S)
    S.V[s, DOWN] = walk(S, s, CHILDREN, S.K[K_OP], COMPUTE, stamp)
    S.V[s, STALE] &= ~(DOWN_STALE | SEES_NEW)
    if S.V[S.K[K_NEW], MARK] == stamp:
        S.V[s, STALE] |= SEES_NEW
