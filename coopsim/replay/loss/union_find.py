"""OneFlow's sets: a union-find forest of values that are missing together, a cost at each root (docs/replay.md)."""

from coopsim.kernel import codes
from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.replay.loss.cache import add_dependent, invalidate_dependents


@inlined
def _find(V: s.Array, v: int) -> int:
    """The root of v's set. Compresses the path fully, like OneFlow: it matters, as nodes leave."""
    root = node = V[v, s.NODE]
    while V[root, s.PARENT] != root:
        root = V[root, s.PARENT]
    while V[node, s.PARENT] != root:
        above = V[node, s.PARENT]
        V[node, s.PARENT] = root
        node = above
    return root


@inlined
def _cost_of(S: s.State, v: int, edge: int) -> int:
    """The cost of the set of a missing neighbour, or its own if that is larger."""
    root = _find(S.V, v)
    add_dependent(S, edge, root)
    return max(S.V[root, s.SET], S.V[v, s.OWN])


@inlined
def _is_missing_sibling(S: s.State, v: int) -> bool:
    """Whether v is missing, and not gone for good."""
    gone = S.choice[s.C_RELEASE] == codes.RELEASE_COUNTED and S.V[v, s.MADE] == 0
    return S.V[v, s.BLOCK] == s.NOWHERE and not gone


@inlined
def cost_with_sets(S: s.State, v: int) -> int:
    """Own cost, and for missing inputs of the producer and siblings the larger of set and own cost."""
    V, n_ins = S.V, S.ins.shape[0]
    op, cost = V[v, s.PRODUCER], V[v, s.OWN]
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if V[S.ins[k], s.BLOCK] == s.NOWHERE:
            cost += _cost_of(S, S.ins[k], k)
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        if _is_missing_sibling(S, S.outs[k]):
            cost += _cost_of(S, S.outs[k], n_ins + k)
    return cost


@inlined
def leave_set(S: s.State, v: int) -> None:
    """v is back. The root of its set loses what v's node stores, and v stands alone."""
    V, node = S.V, S.V[v, s.NODE]
    root = _find(V, v)
    invalidate_dependents(S, root)
    V[root, s.SET] -= V[node, s.SET]
    V[node, s.SET] = V[v, s.OWN]
    V[node, s.PARENT] = node


@inlined
def hand_on_node(S: s.State, older: int, v: int) -> None:
    """v has been made in older's place: it takes over that one's node, and older gets one without cost."""
    V = S.V
    mine = V[v, s.NODE]  # of v alone, which has just been made for the first time
    V[v, s.NODE], V[older, s.NODE] = V[older, s.NODE], mine
    V[mine, s.SET] = 0


@kernel
def _merge(S: s.State, x: int, v: int) -> None:
    """x's set joins v's."""
    V = S.V
    a, b = _find(V, x), _find(V, v)
    if a != b:
        invalidate_dependents(S, a)
        invalidate_dependents(S, b)
        V[b, s.SET] += V[a, s.SET]
        V[a, s.PARENT] = b


@inlined
def join_set(S: s.State, v: int) -> None:
    """v has gone: its set takes in those of missing inputs and siblings (tensor_storage.cpp)."""
    op = S.V[v, s.PRODUCER]
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if S.V[S.ins[k], s.BLOCK] == s.NOWHERE:
            _merge(S, S.ins[k], v)
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        if _is_missing_sibling(S, S.outs[k]):
            _merge(S, S.outs[k], v)
