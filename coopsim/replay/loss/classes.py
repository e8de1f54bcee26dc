"""DTR's equivalence classes of evicted values (paper, section 4.1): they merge, and never split."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    CLASS,
    COST_OF_LOSS,
    INS,
    K_CLASSES,
    K_STAMP,
    N_COST,
    N_PARENT,
    N_STAMP,
    OUTS,
    OWN,
    PIECE,
    PRODUCER,
    ROOTS,
    TEMPS,
    UNKNOWN,
    USES,
    USES_END,
    Array,
    State,
)

_TOO_MANY = -2


@inlined
def in_class(V: Array, v: int) -> bool:
    """Whether v is evicted and in a class. (It keeps its class while its op runs again, but then it has its bytes.)"""
    return (V[v, PIECE] < 0) & (V[v, CLASS] >= 0)


@inlined
def find_class(N: Array, node: int) -> int:
    """The root of a node of the forest of classes."""
    while N[node, N_PARENT] != node:
        N[node, N_PARENT] = N[N[node, N_PARENT], N_PARENT]
        node = N[node, N_PARENT]
    return node


@inlined
def leave_class(S: State, v: int) -> None:
    """v is back: its class loses v's cost, and stays."""
    if S.V[v, CLASS] >= 0:
        S.N[find_class(S.N, S.V[v, CLASS]), N_COST] -= S.V[v, OWN]
        S.V[v, CLASS] = -1


@kernel
def join_class(S: State, v: int) -> None:
    """A new class of v alone, merged with those of evicted parents and children."""
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
        if V[v, PIECE] >= 0:
            S.P[V[v, PIECE], COST_OF_LOSS] = UNKNOWN
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
def list_classes(S: State, v: int) -> int:
    """The cost of the distinct classes of v's evicted parents and children. Lists their roots in R, if they fit."""
    V = S.V
    S.K[K_STAMP] += 1
    n, cost = 0, 0
    op = V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        n, cost = _count_once(S, v, S.ins[k], n, cost)
    for u in range(V[v, USES], V[v, USES_END]):
        child = S.uses[u]
        for k in range(S.O[child, OUTS], S.O[child, TEMPS]):
            n, cost = _count_once(S, v, S.outs[k], n, cost)
    for j in range(n, ROOTS):
        S.R[v, j] = -1
    if n > ROOTS:
        S.R[v, 0] = _TOO_MANY
    return cost


@inlined
def _count_once(S: State, v: int, x: int, n: int, cost: int) -> tuple[int, int]:
    """Add the cost of x's class, unless it has been counted under this stamp."""
    if in_class(S.V, x):
        root = find_class(S.N, S.V[x, CLASS])
        if S.N[root, N_STAMP] != S.K[K_STAMP]:
            S.N[root, N_STAMP] = S.K[K_STAMP]
            cost += S.N[root, N_COST]
            if n < ROOTS:
                S.R[v, n] = root
            n += 1
    return n, cost


@inlined
def cost_of_listed(S: State, v: int) -> int:
    """The cost of the classes listed in R, as it stands; UNKNOWN if they were too many to be listed."""
    N, cost, j = S.N, 0, 0
    while j < ROOTS and S.R[v, j] >= 0:
        root = S.R[v, j]
        if N[root, N_PARENT] == root:
            cost += N[root, N_COST]
            j += 1
        else:
            _list_again(S, v)
            cost, j = 0, 0
    return UNKNOWN if S.R[v, 0] == _TOO_MANY else cost


@kernel
def _list_again(S: State, v: int) -> None:
    """Some of the classes listed in R have become part of others: name those, once each."""
    n = 0
    for j in range(ROOTS):
        if S.R[v, j] < 0:
            break
        root, known = find_class(S.N, S.R[v, j]), False
        for i in range(n):
            known = known or S.R[v, i] == root
        if not known:
            S.R[v, n] = root
            n += 1
    for j in range(n, ROOTS):
        S.R[v, j] = -1
