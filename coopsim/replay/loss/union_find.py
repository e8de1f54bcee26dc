"""OneFlow's sets: a union-find forest of values that are missing together, a cost at each root (docs/replay.md)."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    INS,
    OUTS,
    OWN,
    PARENT,
    PIECE,
    PRODUCER,
    SET,
    TEMPS,
    Array,
    State,
)
from coopsim.replay.loss.cache import tell_watchers, watch


@inlined
def _find(V: Array, v: int) -> int:
    """The root of v's set. Compresses the path fully, like OneFlow: it matters, as nodes leave."""
    root = v
    while V[root, PARENT] != root:
        root = V[root, PARENT]
    while V[v, PARENT] != root:
        above = V[v, PARENT]
        V[v, PARENT] = root
        v = above
    return root


@inlined
def _cost_of(S: State, v: int, edge: int) -> int:
    """The cost of the set of a missing neighbour, or its own if that is larger."""
    root = _find(S.V, v)
    watch(S, edge, root)
    return max(S.V[root, SET], S.V[v, OWN])


@inlined
def cost_with_sets(S: State, v: int) -> int:
    """Own cost, and for missing inputs of the producer and siblings the larger of set and own cost."""
    V, n_ins = S.V, S.ins.shape[0]
    op, cost = V[v, PRODUCER], V[v, OWN]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if V[S.ins[k], PIECE] < 0:
            cost += _cost_of(S, S.ins[k], k)
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if V[S.outs[k], PIECE] < 0:
            cost += _cost_of(S, S.outs[k], n_ins + k)
    return cost


@inlined
def leave_set(S: State, v: int) -> None:
    """v is back. The root of its set loses what v's node stores, and v stands alone."""
    V = S.V
    root = _find(V, v)
    tell_watchers(S, root)
    V[root, SET] -= V[v, SET]
    V[v, SET] = V[v, OWN]
    V[v, PARENT] = v


@kernel
def _merge(S: State, x: int, v: int) -> None:
    """x's set joins v's."""
    V = S.V
    a, b = _find(V, x), _find(V, v)
    if a != b:
        tell_watchers(S, a)
        tell_watchers(S, b)
        V[b, SET] += V[a, SET]
        V[a, PARENT] = b


@inlined
def join_set(S: State, v: int) -> None:
    """v has gone: its set takes in those of missing inputs and siblings (tensor_storage.cpp)."""
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if S.V[S.ins[k], PIECE] < 0:
            _merge(S, S.ins[k], v)
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if S.V[S.outs[k], PIECE] < 0:
            _merge(S, S.outs[k], v)
