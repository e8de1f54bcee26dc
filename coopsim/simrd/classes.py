"""DTR's equivalence classes: sets of evicted storages that have been neighbours, each with one cost.

An evicted storage starts a class with its own cost, which takes in the classes of its evicted neighbours. One that
comes back leaves, and the class loses its cost; the class is never split. simrd finds classes with union-find over
nodes that it never frees. Here each evicted storage holds the number of its class, and a merger renames the smaller
one: the same sets and costs, in space for as many classes as there are storages.
"""

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.state import (
    AFTER,
    AT,
    BEFORE,
    CHILDREN,
    CLASS,
    COMPUTE,
    K_CLASSES,
    K_OP,
    K_STAMP,
    MATERIAL,
    PARENTS,
    Q_COST,
    Q_MARK,
    Q_SIZE,
    Q_SLOT,
    SINCE,
    State,
)


@inlined
def found_class(S: State, s: int, cost: int) -> None:
    """s, which is not in memory, gets a class of its own."""
    S.K[K_CLASSES] -= 1
    q = S.Q[S.K[K_CLASSES], Q_SLOT]
    S.V[s, CLASS] = q
    S.V[s, AFTER] = S.V[s, BEFORE] = s
    S.Q[q, Q_COST] = cost
    S.Q[q, Q_SIZE] = 1


@kernel
def leave_class(S: State, s: int) -> None:
    """s has come (back) to memory."""
    q = S.V[s, CLASS]
    S.Q[q, Q_COST] -= S.V[s, COMPUTE]
    S.Q[q, Q_SIZE] -= 1
    if S.Q[q, Q_SIZE] == 0:
        S.Q[S.K[K_CLASSES], Q_SLOT] = q
        S.K[K_CLASSES] += 1
    else:
        S.V[S.V[s, BEFORE], AFTER] = S.V[s, AFTER]
        S.V[S.V[s, AFTER], BEFORE] = S.V[s, BEFORE]


@inlined
def _merge(S: State, x: int, y: int) -> None:
    """The classes of x and y become one: the smaller is renamed, its ring of members put into the larger's."""
    if S.V[x, CLASS] == S.V[y, CLASS]:
        return
    if S.Q[S.V[x, CLASS], Q_SIZE] > S.Q[S.V[y, CLASS], Q_SIZE]:
        x, y = y, x
    q, gone = S.V[y, CLASS], S.V[x, CLASS]
    S.Q[q, Q_COST] += S.Q[gone, Q_COST]
    S.Q[q, Q_SIZE] += S.Q[gone, Q_SIZE]
    S.Q[S.K[K_CLASSES], Q_SLOT] = gone
    S.K[K_CLASSES] += 1
    z = x
    while True:
        S.V[z, CLASS] = q
        z = S.V[z, AFTER]
        if z == x:
            break
    after_x, after_y = S.V[x, AFTER], S.V[y, AFTER]
    S.V[x, AFTER], S.V[after_y, BEFORE] = after_y, x
    S.V[y, AFTER], S.V[after_x, BEFORE] = after_x, y


@kernel
def join_neighbours(S: State, s: int) -> None:
    """s has been evicted: a class with its cost, and all evicted neighbours' classes in it."""
    found_class(S, s, S.V[s, COMPUTE])
    for k in range(S.V[s, PARENTS], S.V[s + 1, PARENTS]):
        if S.G[k, SINCE] > S.K[K_OP]:
            break
        if S.V[S.G[k, AT], MATERIAL] == 0:
            _merge(S, S.G[k, AT], s)
    for k in range(S.V[s, CHILDREN], S.V[s + 1, CHILDREN]):
        if S.G[k, SINCE] > S.K[K_OP]:
            break
        if S.V[S.G[k, AT], MATERIAL] == 0:
            _merge(S, S.G[k, AT], s)


@inlined
def _first_time(S: State, s: int, stamp: int) -> int:
    """The cost of the class of s, if s is evicted and its class has not been met under this stamp."""
    cost = 0
    if S.V[s, MATERIAL] == 0:
        q = S.V[s, CLASS]
        if S.Q[q, Q_MARK] != stamp:
            S.Q[q, Q_MARK] = stamp
            cost = S.Q[q, Q_COST]
    return cost


@inlined
def cost_of_classes(S: State, s: int) -> int:
    """Summed cost of the different classes of the evicted storages next to s."""
    S.K[K_STAMP] += 1
    stamp = S.K[K_STAMP]
    total = 0
    for k in range(S.V[s, PARENTS], S.V[s + 1, PARENTS]):
        if S.G[k, SINCE] > S.K[K_OP]:
            break
        total += _first_time(S, S.G[k, AT], stamp)
    for k in range(S.V[s, CHILDREN], S.V[s + 1, CHILDREN]):
        if S.G[k, SINCE] > S.K[K_OP]:
            break
        total += _first_time(S, S.G[k, AT], stamp)
    return total
