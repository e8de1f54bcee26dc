"""Which known costs of loss an event makes out of date.

A search asks hundreds of blocks for a cost that rarely changes between two searches. So a block keeps its answer
(COST_OF_LOSS) until a value comes or goes whose absence is part of it. What is recomputed is exactly what changed:
scores are the same as if all were asked anew each time, and so are the paths that OneFlow's union-find shortens.
"""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel

_MANY = 8


@inlined
def is_evicted(V: s.Array, v: int) -> bool:
    """Whether v was made, is missing, and can be made again."""
    return (V[v, s.BLOCK] == s.NOWHERE) & (V[v, s.MADE] == 1) & (V[v, s.EVICTABLE] == 1)


@inlined
def invalidate_cost(S: s.State, v: int) -> None:
    """The cost of losing v may have changed."""
    block = S.V[v, s.BLOCK]
    if block >= 0:
        S.P[block, s.COST_OF_LOSS] = s.UNKNOWN


@inlined
def makes_many(S: s.State, op: int) -> bool:
    """Whether the op makes so many values that, where the cost goes by sets, only the op keeps it, for all blocks."""
    return S.O[op, s.TEMPS] - S.O[op, s.OUTS] > _MANY


@inlined
def _invalidate_outputs(S: s.State, op: int) -> None:
    if S.choice[s.C_COST] == codes.COST_SET:
        if S.O[op, s.LOSS] == s.UNKNOWN:  # nor does any block know it
            return
        S.O[op, s.LOSS] = s.UNKNOWN
        if makes_many(S, op):
            return
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        invalidate_cost(S, S.outs[k])


@kernel
def invalidate(S: s.State, v: int) -> None:
    """v has come or gone: whatever counts it must be queried again. While a plan is followed, nothing has been."""
    kind = S.choice[s.C_COST]
    if S.K[s.K_REQUEST] >= 0:
        return
    if kind in (codes.COST_SET, codes.COST_CLASSES):
        for u in range(S.V[v, s.USES], S.V[v, s.USES_END]):
            _invalidate_outputs(S, S.uses[u])
        op = S.V[v, s.PRODUCER]
        if op >= 0 and kind == codes.COST_SET:
            _invalidate_outputs(S, op)
        elif op >= 0:
            for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
                invalidate_cost(S, S.ins[k])
    elif kind in (codes.COST_NEIGHBOURHOOD, codes.COST_ANCESTORS) and S.V[v, s.EVICTABLE]:
        S.K[s.K_MARKING] = S.K[s.K_QUERIES] + 1  # another pass: what earlier ones marked may be known again
        _mark_below(S, v)
        if kind == codes.COST_NEIGHBOURHOOD:
            _mark_above(S, v)


@kernel
def _mark_below(S: s.State, v: int) -> None:
    """All that is resident and reached from v through evicted values, downwards. Not twice through one in a pass."""
    V, visit, depth = S.V, S.visit, 1
    visit[0] = v
    S.marks[v, s.M_DOWN] = S.K[s.K_MARKING]
    while depth > 0:
        depth -= 1
        x = visit[depth]
        for j in range(V[x, s.USES], V[x, s.USES_END]):
            op = S.uses[j]
            for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
                u = S.outs[k]
                invalidate_cost(S, u)
                if is_evicted(V, u) and S.marks[u, s.M_DOWN] != S.K[s.K_MARKING]:
                    S.marks[u, s.M_DOWN] = S.K[s.K_MARKING]
                    visit[depth] = u
                    depth += 1


@kernel
def _mark_above(S: s.State, v: int) -> None:
    """The same upwards."""
    V, visit, depth = S.V, S.visit, 1
    visit[0] = v
    S.marks[v, s.M_UP] = S.K[s.K_MARKING]
    while depth > 0:
        depth -= 1
        op = V[visit[depth], s.PRODUCER]
        for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
            u = S.ins[k]
            invalidate_cost(S, u)
            if is_evicted(V, u) and S.marks[u, s.M_UP] != S.K[s.K_MARKING]:
                S.marks[u, s.M_UP] = S.K[s.K_MARKING]
                visit[depth] = u
                depth += 1


@inlined
def add_dependent(S: s.State, edge: int, root: int) -> None:
    """The cost of set `root` went into what the op at the edge made."""
    if S.edges[edge] == s.UNLISTED:  # else it is in this list: one that changes is emptied
        S.edges[edge] = S.dependents[root]
        S.dependents[root] = edge


@kernel
def invalidate_dependents(S: s.State, root: int) -> None:
    """The cost of set `root` has changed, or it is part of another now."""
    edge = S.dependents[root]
    S.dependents[root] = s.LAST
    while edge >= 0:
        _invalidate_outputs(S, S.edge_op[edge])
        following = S.edges[edge]
        S.edges[edge] = s.UNLISTED
        edge = following
