"""Regions that follow each event at once, as simrd does it: for ops that lack arguments and make a view."""

from coopsim.simulate.kernel.jit import inlined, kernel
from tests.peers.simrd import state as s
from tests.peers.simrd.walk import cost_of_new, edge, new_stamp, refresh_down, refresh_up, walk


@kernel
def absorb_now(S: s.SimrdState, x: int) -> None:
    """x is about to be evicted: those around it take in x, and of the regions behind it what they lack."""
    V = S.V
    n = edge(S, x, s.CHILDREN)
    for k in range(n):
        y = S.edge[k]
        if V[y, s.STALE] & s.UP_STALE:
            refresh_up(S, y)
        stamp = new_stamp(S)
        walk(S, y, s.PARENTS, S.K[s.K_SINCE], s.COMPUTE, stamp)
        V[y, s.UP] += V[x, s.COMPUTE] + walk(S, x, s.PARENTS, S.K[s.K_SINCE], s.COMPUTE, stamp)
    if S.K[s.K_REGIONS] < s.BOTH:
        return
    n = edge(S, x, s.PARENTS)
    for k in range(n):
        y = S.edge[k]
        if V[y, s.STALE] & s.DOWN_STALE:
            refresh_down(S, y)
        stamp = new_stamp(S)
        walk(S, y, s.CHILDREN, S.K[s.K_SINCE], s.COMPUTE, stamp)
        V[y, s.DOWN] += V[x, s.COMPUTE] + walk(S, x, s.CHILDREN, S.K[s.K_SINCE], s.COMPUTE, stamp)
        if V[x, s.STALE] & s.SEES_NEW and V[y, s.STALE] & s.SEES_NEW == 0:
            V[y, s.DOWN] += cost_of_new(S)
            V[y, s.STALE] |= s.SEES_NEW


@kernel
def restore_now(S: s.SimrdState, v: int) -> None:
    """v is back: its regions, and those of the storages in memory around it, are summed anew."""
    S.V[v, s.UP] = 0  # all that it is made from is in memory
    S.V[v, s.STALE] &= ~s.UP_STALE
    n = edge(S, v, s.CHILDREN)
    for k in range(n):
        y = S.edge[k]
        S.V[y, s.UP] = walk(S, y, s.PARENTS, S.K[s.K_OP], s.COMPUTE, new_stamp(S))
        S.V[y, s.STALE] &= ~s.UP_STALE
    if S.K[s.K_REGIONS] == s.BOTH:
        _sum_down_now(S, v)
        n = edge(S, v, s.PARENTS)
        for k in range(n):
            _sum_down_now(S, S.edge[k])


@inlined
def _sum_down_now(S: s.SimrdState, v: int) -> None:
    """Sum DOWN as simrd does in the middle of an op: what the op makes counts."""
    stamp = new_stamp(S)
    S.V[v, s.DOWN] = walk(S, v, s.CHILDREN, S.K[s.K_OP], s.COMPUTE, stamp)
    S.V[v, s.STALE] &= ~(s.DOWN_STALE | s.SEES_NEW)
    if S.V[S.K[s.K_NEW], s.MARK] == stamp:
        S.V[v, s.STALE] |= s.SEES_NEW
