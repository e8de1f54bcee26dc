"""What losing a value costs (types.Cost), and what the absence of a value means to its relatives.

The evicted neighbourhood of a value is walked anew; of static DTR's projection (MegEngine's seq_dtr.cpp) each value
keeps what it needs. Sets of evicted values, OneFlow's and DTR's classes: evicted_sets.py. Which known costs an
event makes out of date: loss_cache.py.
"""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.evicted_sets import join_class, join_set, leave_class, leave_set
from coopsim.simulate.replay.loss_cache import is_evicted
from coopsim.simulate.replay.memory import pin


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


@kernel
def join_evicted(S: s.State, v: int) -> None:
    """v has gone, and can be made again."""
    if S.choice[s.C_COST] == codes.COST_SET:
        join_set(S, v)
    elif S.choice[s.C_COST] == codes.COST_CLASSES:
        join_class(S, v)


@inlined
def leave_evicted(S: s.State, v: int) -> None:
    """v is back, or banished."""
    if S.choice[s.C_COST] == codes.COST_SET:
        leave_set(S, v)
    elif S.choice[s.C_COST] == codes.COST_CLASSES:
        leave_class(S, v)


@kernel
def forget(S: s.State) -> None:
    """A new iteration of the trace: nothing is made yet, nobody is evicted or held."""
    V = S.V
    S.K[s.K_CLASSES] = 0
    for v in range(V.shape[0]):
        V[v, s.PARENT] = V[v, s.NODE] = v
        V[v, s.SET] = V[v, s.OWN]
        V[v, s.MADE] = 0
        V[v, s.CLASS] = -1
        pin(S, v, -V[v, s.HELD])
        V[v, s.HELD] = 0
        V[v, s.UPDATED] = V[v, s.UNSAVED] = 0
        V[v, s.NEXT_AT] = V[v, s.USES]
        if V[v, s.BLOCK] >= 0:
            S.P[V[v, s.BLOCK], s.COST_OF_LOSS] = s.UNKNOWN
    for op in range(S.O.shape[0]):
        S.O[op, s.LOSS] = s.UNKNOWN
    for root in range(S.dependents.shape[0]):
        S.dependents[root] = s.LAST
    for edge in range(S.edges.shape[0]):
        S.edges[edge] = s.UNLISTED


@kernel
def project(S: s.State) -> None:
    """Bring W up to date for all evicted values; all terms count along every path.

    A value's producer comes before it and its users after it, so one pass up and one pass down are enough.
    """
    V, W = S.V, S.W
    for v in range(V.shape[0]):
        if is_evicted(V, v):
            back, memory = back_and_memory(S, v)
            W[v, s.W_BACK] = back
            W[v, s.W_MEMORY] = memory
    for v in range(V.shape[0] - 1, -1, -1):
        if is_evicted(V, v):
            W[v, s.W_FORWARD] = forward(S, v)


@inlined
def back_and_memory(S: s.State, v: int) -> tuple[float, float]:
    """Cost to bring v back, and the memory for it: its own and, path-counted, those of evicted inputs."""
    back, memory = float(S.V[v, s.OWN]), float(S.V[v, s.BYTES])
    op = S.V[v, s.PRODUCER]
    if op < 0:
        return back, memory
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if is_evicted(S.V, S.ins[k]):
            back += S.W[S.ins[k], s.W_BACK]
            memory += S.W[S.ins[k], s.W_MEMORY]
    return back, memory


@inlined
def forward(S: s.State, v: int) -> float:
    """1 + the evicted descendants of v, path-counted."""
    total = 1.0
    for j in range(S.V[v, s.USES], S.V[v, s.USES_END]):
        op = S.uses[j]
        for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
            if is_evicted(S.V, S.outs[k]):
                total += S.W[S.outs[k], s.W_FORWARD]
    return total
