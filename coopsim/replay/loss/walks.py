"""Evicted ancestors and descendants of a value, each once, up to the nearest that are resident."""

from coopsim.kernel import state as s
from coopsim.kernel.jit import kernel
from coopsim.replay.loss.cache import is_evicted


@kernel
def _list_above(S: s.State, v: int) -> int:
    """v and its evicted ancestors, nearest first, in S.visit; their number. They have the current stamp."""
    V, visit = S.V, S.visit
    S.K[s.K_STAMP] += 1
    done, n = 0, 1
    visit[0] = v
    while done < n:
        op = V[visit[done], s.PRODUCER]
        done += 1
        for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
            u = S.ins[k]
            if is_evicted(V, u) and V[u, s.STAMP] != S.K[s.K_STAMP]:
                V[u, s.STAMP] = S.K[s.K_STAMP]
                visit[n] = u
                n += 1
    return n


@kernel
def _list_below(S: s.State, v: int) -> int:
    """v and its evicted descendants, nearest first, in S.visit; their number."""
    V, visit = S.V, S.visit
    S.K[s.K_STAMP] += 1
    done, n = 0, 1
    visit[0] = v
    while done < n:
        x = visit[done]
        done += 1
        for j in range(V[x, s.USES], V[x, s.USES_END]):
            op = S.uses[j]
            for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
                u = S.outs[k]
                if is_evicted(V, u) and V[u, s.STAMP] != S.K[s.K_STAMP]:
                    V[u, s.STAMP] = S.K[s.K_STAMP]
                    visit[n] = u
                    n += 1
    return n


@kernel
def evicted_above(S: s.State, v: int) -> int:
    """The cost of all evicted ancestors of v: half of DTR's exact neighbourhood e* (section 4.1)."""
    cost = 0
    for k in range(1, _list_above(S, v)):
        cost += S.V[S.visit[k], s.OWN]
    return cost


@kernel
def evicted_below(S: s.State, v: int) -> int:
    """The cost of all evicted descendants of v: the other half."""
    cost = 0
    for k in range(1, _list_below(S, v)):
        cost += S.V[S.visit[k], s.OWN]
    return cost


@kernel
def is_needed(S: s.State, v: int) -> bool:
    """Whether something that is evicted, and that the program holds, would be made again from v."""
    needed = False
    for k in range(1, _list_below(S, v)):
        needed |= S.V[S.visit[k], s.LIVE] == 1
    return needed


@kernel
def resident_above(S: s.State, v: int) -> int:
    """The nearest resident ancestors of v, which is evicted, nearest first; their number. They are in S.scratch."""
    found = 0
    for j in range(_list_above(S, v)):
        op = S.V[S.visit[j], s.PRODUCER]
        for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
            u = S.ins[k]
            if S.V[u, s.BLOCK] >= 0 and S.V[u, s.STAMP] != S.K[s.K_STAMP]:
                S.V[u, s.STAMP] = S.K[s.K_STAMP]
                S.scratch[found] = u
                found += 1
    return found
