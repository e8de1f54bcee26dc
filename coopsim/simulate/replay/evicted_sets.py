"""Sets of evicted values, with a cost each: DTR's equivalence classes and OneFlow's union-find.

DTR's classes (paper, section 4.1) merge, and never split. OneFlow's sets are a forest of values that are missing
together, a cost at each root (docs/replay.md).
"""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.loss_cache import add_dependent, invalidate_dependents

_TOO_MANY = -2


@inlined
def in_class(V: s.Array, v: int) -> bool:
    """Whether v is evicted and in a class. (It keeps its class while its op runs again, but then it has its bytes.)"""
    return (V[v, s.BLOCK] == s.NOWHERE) & (V[v, s.CLASS] >= 0)


@inlined
def find_class(N: s.Array, node: int) -> int:
    """The root of a node of the forest of classes."""
    while N[node, s.N_PARENT] != node:
        N[node, s.N_PARENT] = N[N[node, s.N_PARENT], s.N_PARENT]
        node = N[node, s.N_PARENT]
    return node


@inlined
def leave_class(S: s.State, v: int) -> None:
    """v is back: its class loses v's cost, and stays."""
    if S.V[v, s.CLASS] >= 0:
        S.N[find_class(S.N, S.V[v, s.CLASS]), s.N_COST] -= S.V[v, s.OWN]
        S.V[v, s.CLASS] = -1


@kernel
def join_class(S: s.State, v: int) -> None:
    """A new class of v alone, merged with those of evicted parents and children."""
    if S.K[s.K_CLASSES] == S.N.shape[0]:
        _compact_classes(S)
    node = S.K[s.K_CLASSES]
    S.K[s.K_CLASSES] += 1
    S.N[node, s.N_PARENT] = node
    S.N[node, s.N_COST] = S.V[v, s.OWN]
    S.V[v, s.CLASS] = node
    op = S.V[v, s.PRODUCER]
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if in_class(S.V, S.ins[k]):
            _merge_classes(S.N, S.V[S.ins[k], s.CLASS], node)
    for u in range(S.V[v, s.USES], S.V[v, s.USES_END]):
        child = S.uses[u]
        for k in range(S.O[child, s.OUTS], S.O[child, s.TEMPS]):
            if in_class(S.V, S.outs[k]):
                _merge_classes(S.N, S.V[S.outs[k], s.CLASS], node)


@inlined
def _merge_classes(N: s.Array, x: int, node: int) -> None:
    a, b = find_class(N, x), find_class(N, node)
    if a != b:
        N[b, s.N_COST] += N[a, s.N_COST]
        N[a, s.N_PARENT] = b


@kernel
def _compact_classes(S: s.State) -> None:
    """Renumber the classes that still have members: values that came back have left their nodes behind."""
    V, N = S.V, S.N
    for v in range(V.shape[0]):
        if V[v, s.CLASS] >= 0:
            V[v, s.CLASS] = find_class(N, V[v, s.CLASS])
            N[V[v, s.CLASS], s.N_STAMP] = -1
        if V[v, s.BLOCK] >= 0:
            S.P[V[v, s.BLOCK], s.COST_OF_LOSS] = s.UNKNOWN
    n = 0
    for v in range(V.shape[0]):
        root = V[v, s.CLASS]
        if root >= 0:
            if N[root, s.N_STAMP] < 0:
                N[root, s.N_STAMP] = n
                S.visit[n] = N[root, s.N_COST]
                n += 1
            V[v, s.CLASS] = N[root, s.N_STAMP]
    for k in range(n):
        N[k, s.N_PARENT] = k
        N[k, s.N_COST] = S.visit[k]
        N[k, s.N_STAMP] = 0
    S.K[s.K_CLASSES] = n


@kernel
def list_classes(S: s.State, v: int) -> int:
    """The cost of the distinct classes of v's evicted parents and children. Lists their roots in R, if they fit."""
    V = S.V
    S.K[s.K_STAMP] += 1
    n, cost = 0, 0
    op = V[v, s.PRODUCER]
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        n, cost = _count_once(S, v, S.ins[k], n, cost)
    for u in range(V[v, s.USES], V[v, s.USES_END]):
        child = S.uses[u]
        for k in range(S.O[child, s.OUTS], S.O[child, s.TEMPS]):
            n, cost = _count_once(S, v, S.outs[k], n, cost)
    for j in range(n, s.ROOTS):
        S.R[v, j] = -1
    if n > s.ROOTS:
        S.R[v, 0] = _TOO_MANY
    return cost


@inlined
def _count_once(S: s.State, v: int, x: int, n: int, cost: int) -> tuple[int, int]:
    """Add the cost of x's class, unless it has been counted under this stamp."""
    if in_class(S.V, x):
        root = find_class(S.N, S.V[x, s.CLASS])
        if S.N[root, s.N_STAMP] != S.K[s.K_STAMP]:
            S.N[root, s.N_STAMP] = S.K[s.K_STAMP]
            cost += S.N[root, s.N_COST]
            if n < s.ROOTS:
                S.R[v, n] = root
            n += 1
    return n, cost


@inlined
def cost_of_listed(S: s.State, v: int) -> int:
    """The cost of the classes listed in R, as it stands; UNKNOWN if they were too many to be listed."""
    N, cost, j = S.N, 0, 0
    while j < s.ROOTS and S.R[v, j] >= 0:
        root = S.R[v, j]
        if N[root, s.N_PARENT] == root:
            cost += N[root, s.N_COST]
            j += 1
        else:
            _list_again(S, v)
            cost, j = 0, 0
    return s.UNKNOWN if S.R[v, 0] == _TOO_MANY else cost


@kernel
def _list_again(S: s.State, v: int) -> None:
    """Some of the classes listed in R have become part of others: name those, once each."""
    n = 0
    for j in range(s.ROOTS):
        if S.R[v, j] < 0:
            break
        root, known = find_class(S.N, S.R[v, j]), False
        for i in range(n):
            known = known or S.R[v, i] == root
        if not known:
            S.R[v, n] = root
            n += 1
    for j in range(n, s.ROOTS):
        S.R[v, j] = -1


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
    """Own cost, and for missing inputs of the producer and siblings the larger of set and own cost.

    It is the same for all that the op has made and that is there, so it is added up once for them.
    """
    V, n_ins = S.V, S.ins.shape[0]
    op, cost = V[v, s.PRODUCER], V[v, s.OWN]
    if S.O[op, s.LOSS] != s.UNKNOWN:
        return S.O[op, s.LOSS]
    S.K[s.K_QUERIES] += 1
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if V[S.ins[k], s.BLOCK] == s.NOWHERE:
            cost += _cost_of(S, S.ins[k], k)
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        if _is_missing_sibling(S, S.outs[k]):
            cost += _cost_of(S, S.outs[k], n_ins + k)
    S.O[op, s.LOSS] = cost
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
