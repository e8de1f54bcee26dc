"""Evicted ancestors and descendants of a value, each counted once: DTR's exact neighbourhood e* (section 4.1)."""

from coopsim.kernel.jit import kernel
from coopsim.kernel.state import INS, K_STAMP, LIVE, OUTS, OWN, PIECE, PRODUCER, STAMP, TEMPS, USES, USES_END, State
from coopsim.replay.watch import is_evicted


@kernel
def evicted_above(S: State, v: int) -> int:
    """The cost of all evicted ancestors of v, up to the nearest that are resident."""
    V, visit = S.V, S.visit
    S.K[K_STAMP] += 1
    cost, depth = 0, 1
    visit[0] = v
    while depth > 0:
        depth -= 1
        op = V[visit[depth], PRODUCER]
        for k in range(S.O[op, INS], S.O[op + 1, INS]):
            u = S.ins[k]
            if is_evicted(V, u) and V[u, STAMP] != S.K[K_STAMP]:
                V[u, STAMP] = S.K[K_STAMP]
                cost += V[u, OWN]
                visit[depth] = u
                depth += 1
    return cost


@kernel
def evicted_below(S: State, v: int) -> int:
    """The cost of all evicted descendants of v, down to the nearest that are resident."""
    V, visit = S.V, S.visit
    S.K[K_STAMP] += 1
    cost, depth = 0, 1
    visit[0] = v
    while depth > 0:
        depth -= 1
        x = visit[depth]
        for j in range(V[x, USES], V[x, USES_END]):
            op = S.uses[j]
            for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
                u = S.outs[k]
                if is_evicted(V, u) and V[u, STAMP] != S.K[K_STAMP]:
                    V[u, STAMP] = S.K[K_STAMP]
                    cost += V[u, OWN]
                    visit[depth] = u
                    depth += 1
    return cost


@kernel
def is_needed(S: State, v: int) -> bool:
    """Whether something that is evicted, and that the program holds, would be made again from v."""
    V, visit = S.V, S.visit
    S.K[K_STAMP] += 1
    depth = 1
    visit[0] = v
    while depth > 0:
        depth -= 1
        x = visit[depth]
        for j in range(V[x, USES], V[x, USES_END]):
            op = S.uses[j]
            for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
                u = S.outs[k]
                if is_evicted(V, u) and V[u, STAMP] != S.K[K_STAMP]:
                    if V[u, LIVE]:
                        return True
                    V[u, STAMP] = S.K[K_STAMP]
                    visit[depth] = u
                    depth += 1
    return False


@kernel
def resident_above(S: State, v: int) -> int:
    """The nearest resident ancestors of v, which is evicted, nearest first; their number. They are in S.scratch."""
    V, visit = S.V, S.visit
    S.K[K_STAMP] += 1
    found, done, n = 0, 0, 1
    visit[0] = v
    while done < n:
        op = V[visit[done], PRODUCER]
        done += 1
        for k in range(S.O[op, INS], S.O[op + 1, INS]):
            u = S.ins[k]
            if V[u, STAMP] != S.K[K_STAMP]:
                V[u, STAMP] = S.K[K_STAMP]
                if V[u, PIECE] >= 0:
                    S.scratch[found] = u
                    found += 1
                elif is_evicted(V, u):
                    visit[n] = u
                    n += 1
    return found
