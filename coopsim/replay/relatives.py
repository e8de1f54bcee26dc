"""Who is evicted together with whom: what a policy's cost of loss looks at beyond the value itself.

Three kinds are kept up to date as values come and go: OneFlow's union-find sets, DTR's equivalence classes, and
nothing (costs that walk the graph when asked). A value counts as evicted if it has been made in this round, is not
resident, and can be made again.
"""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    BYTES,
    C_COST,
    CLASS,
    EVICTABLE,
    HELD,
    INS,
    K_CLASSES,
    K_STAMP,
    MADE,
    N_COST,
    N_PARENT,
    N_STAMP,
    NEXT_AT,
    OUTS,
    OWN,
    PARENT,
    PIECE,
    PINS,
    PRODUCER,
    SET,
    STAMP,
    TEMPS,
    USES,
    USES_END,
    W_BACK,
    W_FORWARD,
    W_MEMORY,
    Array,
    State,
)

COST_SET, COST_CLASSES = 2, 3


@inlined
def is_evicted(V: Array, v: int) -> bool:
    """Whether v was made, is gone, and can be made again."""
    return (V[v, PIECE] < 0) & (V[v, MADE] == 1) & (V[v, EVICTABLE] == 1)


@inlined
def in_class(V: Array, v: int) -> bool:
    """Whether v is evicted and in a class. (It keeps its class while its op runs again, but then it has its bytes.)"""
    return (V[v, PIECE] < 0) & (V[v, CLASS] >= 0)


@inlined
def find(V: Array, v: int) -> int:
    """The root of v's set of evicted values. Compresses the path fully, like OneFlow: it matters, as nodes leave."""
    root = v
    while V[root, PARENT] != root:
        root = V[root, PARENT]
    while V[v, PARENT] != root:
        above = V[v, PARENT]
        V[v, PARENT] = root
        v = above
    return root


@inlined
def set_cost(V: Array, v: int) -> int:
    """The cost of v's set, or its own if that is larger."""
    return max(V[find(V, v), SET], V[v, OWN])


@inlined
def find_class(N: Array, node: int) -> int:
    """The root of a node of the forest of classes."""
    while N[node, N_PARENT] != node:
        N[node, N_PARENT] = N[N[node, N_PARENT], N_PARENT]
        node = N[node, N_PARENT]
    return node


@kernel
def join_evicted(S: State, v: int) -> None:
    """v has gone: tell its relatives."""
    if S.choice[C_COST] == COST_SET:
        _join_set(S, v)
    elif S.choice[C_COST] == COST_CLASSES:
        _join_class(S, v)


@inlined
def leave_evicted(S: State, v: int) -> None:
    """v is back. Its set's root loses what v's node stores and v stands alone; its class loses v's cost, and stays."""
    V = S.V
    if S.choice[C_COST] == COST_SET:
        V[find(V, v), SET] -= V[v, SET]
        V[v, SET] = V[v, OWN]
        V[v, PARENT] = v
    elif S.choice[C_COST] == COST_CLASSES and V[v, CLASS] >= 0:
        S.N[find_class(S.N, V[v, CLASS]), N_COST] -= V[v, OWN]
        V[v, CLASS] = -1


@kernel
def forget(S: State) -> None:
    """A new round: nothing is made yet, nobody is evicted or held."""
    V = S.V
    S.K[K_CLASSES] = 0
    for v in range(V.shape[0]):
        V[v, PARENT] = v
        V[v, SET] = V[v, OWN]
        V[v, MADE] = 0
        V[v, CLASS] = -1
        V[v, PINS] -= V[v, HELD]
        V[v, HELD] = 0
        V[v, NEXT_AT] = V[v, USES]


@inlined
def _merge(V: Array, x: int, v: int) -> None:
    """x's set joins v's."""
    a, b = find(V, x), find(V, v)
    if a != b:
        V[b, SET] += V[a, SET]
        V[a, PARENT] = b


@kernel
def _join_set(S: State, v: int) -> None:
    """v's set takes in those of missing inputs and siblings (OneFlow's union-find, tensor_storage.cpp)."""
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if S.V[S.ins[k], PIECE] < 0:
            _merge(S.V, S.ins[k], v)
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if S.V[S.outs[k], PIECE] < 0:
            _merge(S.V, S.outs[k], v)


@kernel
def _join_class(S: State, v: int) -> None:
    """A new class of v alone, merged with those of evicted parents and children (DTR's paper, section 4.1)."""
    if S.K[K_CLASSES] == S.N.shape[0]:
        _compact_classes(S)
    node = S.K[K_CLASSES]
    S.K[K_CLASSES] += 1
    S.N[node, N_PARENT] = node
    S.N[node, N_COST] = S.V[v, OWN]
    S.V[v, CLASS] = node
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if in_class(S.V, S.ins[k]):
            _merge_classes(S.N, S.V[S.ins[k], CLASS], node)
    for u in range(S.V[v, USES], S.V[v, USES_END]):
        child = S.uses[u]
        for k in range(S.O[child, OUTS], S.O[child, TEMPS]):
            if in_class(S.V, S.outs[k]):
                _merge_classes(S.N, S.V[S.outs[k], CLASS], node)


@inlined
def _merge_classes(N: Array, x: int, node: int) -> None:
    a, b = find_class(N, x), find_class(N, node)
    if a != b:
        N[b, N_COST] += N[a, N_COST]
        N[a, N_PARENT] = b


@kernel
def _compact_classes(S: State) -> None:
    """Renumber the classes that still have members: values that came back have left their nodes behind."""
    V, N = S.V, S.N
    for v in range(V.shape[0]):
        if V[v, CLASS] >= 0:
            V[v, CLASS] = find_class(N, V[v, CLASS])
            N[V[v, CLASS], N_STAMP] = -1
    n = 0
    for v in range(V.shape[0]):
        root = V[v, CLASS]
        if root >= 0:
            if N[root, N_STAMP] < 0:
                N[root, N_STAMP] = n
                S.visit[n] = N[root, N_COST]
                n += 1
            V[v, CLASS] = N[root, N_STAMP]
    for k in range(n):
        N[k, N_PARENT] = k
        N[k, N_COST] = S.visit[k]
        N[k, N_STAMP] = 0
    S.K[K_CLASSES] = n


@kernel
def classes_around(S: State, v: int) -> int:
    """The cost of the distinct classes of v's evicted parents and children."""
    V, N = S.V, S.N
    S.K[K_STAMP] += 1
    stamp, cost = S.K[K_STAMP], 0
    op = V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        cost += _count_once(V, N, S.ins[k], stamp)
    for u in range(V[v, USES], V[v, USES_END]):
        child = S.uses[u]
        for k in range(S.O[child, OUTS], S.O[child, TEMPS]):
            cost += _count_once(V, N, S.outs[k], stamp)
    return cost


@inlined
def _count_once(V: Array, N: Array, v: int, stamp: int) -> int:
    """The cost of v's class, unless it has been counted under this stamp."""
    cost = 0
    if in_class(V, v):
        root = find_class(N, V[v, CLASS])
        if N[root, N_STAMP] != stamp:
            N[root, N_STAMP] = stamp
            cost = N[root, N_COST]
    return cost


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
def project(S: State) -> None:
    """Bring W up to date for all evicted values (MegEngine's seq_dtr.cpp; all terms count along every path).

    A value's producer comes before it and its users after it, so one pass up and one pass down settle all.
    """
    V, W = S.V, S.W
    for v in range(V.shape[0]):
        if is_evicted(V, v):
            back, memory = back_and_memory(S, v)
            W[v, W_BACK] = back
            W[v, W_MEMORY] = memory
    for v in range(V.shape[0] - 1, -1, -1):
        if is_evicted(V, v):
            W[v, W_FORWARD] = forward(S, v)


@inlined
def back_and_memory(S: State, v: int) -> tuple[float, float]:
    """Cost to bring v back, and the memory for it: its own and, path-counted, those of evicted inputs."""
    back, memory = float(S.V[v, OWN]), float(S.V[v, BYTES])
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if is_evicted(S.V, S.ins[k]):
            back += S.W[S.ins[k], W_BACK]
            memory += S.W[S.ins[k], W_MEMORY]
    return back, memory


@inlined
def forward(S: State, v: int) -> float:
    """1 + the evicted descendants of v, path-counted."""
    total = 1.0
    for j in range(S.V[v, USES], S.V[v, USES_END]):
        op = S.uses[j]
        for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
            if is_evicted(S.V, S.outs[k]):
                total += S.W[S.outs[k], W_FORWARD]
    return total
