"""DTR's equivalence classes: sets of evicted storages that have been neighbours, each with one cost.

An evicted storage starts a class with its own cost, which takes in the classes of its evicted neighbours. One that
comes back leaves, and the class loses its cost; the class is never split. simrd finds classes with union-find over
nodes that it never frees. Here each evicted storage holds the number of its class, and a merger renames the smaller
one: the same sets and costs, in space for as many classes as there are storages.
"""

from coopsim.simulate.kernel.jit import inlined, kernel
from tests.peers.simrd import state as s


@inlined
def found_class(S: s.SimrdState, v: int, cost: int) -> None:
    """v, which is not in memory, gets a class of its own."""
    S.K[s.K_CLASSES] -= 1
    q = S.Q[S.K[s.K_CLASSES], s.Q_SLOT]
    S.V[v, s.CLASS] = q
    S.V[v, s.AFTER] = S.V[v, s.BEFORE] = v
    S.Q[q, s.Q_COST] = cost
    S.Q[q, s.Q_SIZE] = 1


@kernel
def leave_class(S: s.SimrdState, v: int) -> None:
    """v has come (back) to memory."""
    q = S.V[v, s.CLASS]
    S.Q[q, s.Q_COST] -= S.V[v, s.COMPUTE]
    S.Q[q, s.Q_SIZE] -= 1
    if S.Q[q, s.Q_SIZE] == 0:
        S.Q[S.K[s.K_CLASSES], s.Q_SLOT] = q
        S.K[s.K_CLASSES] += 1
    else:
        S.V[S.V[v, s.BEFORE], s.AFTER] = S.V[v, s.AFTER]
        S.V[S.V[v, s.AFTER], s.BEFORE] = S.V[v, s.BEFORE]


@inlined
def _merge(S: s.SimrdState, x: int, y: int) -> None:
    """The classes of x and y become one: the smaller is renamed, its ring of members put into the larger's."""
    if S.V[x, s.CLASS] == S.V[y, s.CLASS]:
        return
    if S.Q[S.V[x, s.CLASS], s.Q_SIZE] > S.Q[S.V[y, s.CLASS], s.Q_SIZE]:
        x, y = y, x
    q, gone = S.V[y, s.CLASS], S.V[x, s.CLASS]
    S.Q[q, s.Q_COST] += S.Q[gone, s.Q_COST]
    S.Q[q, s.Q_SIZE] += S.Q[gone, s.Q_SIZE]
    S.Q[S.K[s.K_CLASSES], s.Q_SLOT] = gone
    S.K[s.K_CLASSES] += 1
    z = x
    while True:
        S.V[z, s.CLASS] = q
        z = S.V[z, s.AFTER]
        if z == x:
            break
    after_x, after_y = S.V[x, s.AFTER], S.V[y, s.AFTER]
    S.V[x, s.AFTER], S.V[after_y, s.BEFORE] = after_y, x
    S.V[y, s.AFTER], S.V[after_x, s.BEFORE] = after_x, y


@kernel
def join_neighbours(S: s.SimrdState, v: int) -> None:
    """v has been evicted: a class with its cost, and all evicted neighbours' classes in it."""
    found_class(S, v, S.V[v, s.COMPUTE])
    for k in range(S.V[v, s.PARENTS], S.V[v + 1, s.PARENTS]):
        if S.G[k, s.SINCE] > S.K[s.K_OP]:
            break
        if S.V[S.G[k, s.END], s.MATERIAL] == 0:
            _merge(S, S.G[k, s.END], v)
    for k in range(S.V[v, s.CHILDREN], S.V[v + 1, s.CHILDREN]):
        if S.G[k, s.SINCE] > S.K[s.K_OP]:
            break
        if S.V[S.G[k, s.END], s.MATERIAL] == 0:
            _merge(S, S.G[k, s.END], v)


@inlined
def _first_time(S: s.SimrdState, v: int, stamp: int) -> int:
    """The cost of the class of v, if v is evicted and its class has not been met under this stamp."""
    cost = 0
    if S.V[v, s.MATERIAL] == 0:
        q = S.V[v, s.CLASS]
        if S.Q[q, s.Q_MARK] != stamp:
            S.Q[q, s.Q_MARK] = stamp
            cost = S.Q[q, s.Q_COST]
    return cost


@inlined
def cost_of_classes(S: s.SimrdState, v: int) -> int:
    """Summed cost of the different classes of the evicted storages next to v."""
    S.K[s.K_STAMP] += 1
    stamp = S.K[s.K_STAMP]
    total = 0
    for k in range(S.V[v, s.PARENTS], S.V[v + 1, s.PARENTS]):
        if S.G[k, s.SINCE] > S.K[s.K_OP]:
            break
        total += _first_time(S, S.G[k, s.END], stamp)
    for k in range(S.V[v, s.CHILDREN], S.V[v + 1, s.CHILDREN]):
        if S.G[k, s.SINCE] > S.K[s.K_OP]:
            break
        total += _first_time(S, S.G[k, s.END], stamp)
    return total
