"""DTR's equivalence classes of evicted values (paper, section 4.1): they merge, and never split."""

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel

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
