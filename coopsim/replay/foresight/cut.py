"""The cheapest way to be within the budget at one moment: what to keep, and which ops to run again for the rest.

While op e runs, every value that is needed later is either resident or made again afterwards, by its producer, which
needs its own inputs then. At a price for each byte that is resident the cheapest choice is a minimum cut of a graph:

    source -> needed(v)                   without limit, if an op of the program after e uses v
    needed(v) -> again(producer of v)     price * bytes: v is needed and not made again, so it is resident
    again(p) -> sink                      the cost of p
    again(p) -> needed(u)                 without limit, for each input u of p

The higher the price, the fewer bytes are resident. The least cost in the room that there is lies above the straight
line between the two neighbouring choices that take just more and just less: a lower bound for any plan.
"""

from typing import Any

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
from coopsim.kernel.state import (
    BYTES,
    DECIDE,
    EVICTABLE,
    INS,
    OLDER,
    OUTS,
    PRODUCER,
    TEMPS,
    USES,
    USES_END,
    Array,
)
from coopsim.replay.foresight.dry_run import R_IN_PLACE, Rehearsal, rehearse
from coopsim.replay.plan import LEAVE, LEAVE_ONCE, STAY

_NO_LIMIT = 1 << 60
_TILT = 0.02  # of a price, to break ties
_ALL_COSTS = 1 << 50  # what all costs come to in the graph, so that prices are rounded to less than matters

# G: a row an edge, and its reverse beside it. G_FULL is its capacity, G_LEFT what is left of it.
G_TO, G_NEXT, G_FULL, G_LEFT = range(4)

# K: numbers.
N_EDGES, N_COST, N_BYTES, N_SCALE = range(4)


class Cut(Bundle):
    """The graph for one moment. Nodes are the values, the ops, the source and the sink."""

    G: Array
    first: Array  # of each node, its first edge
    level: Array  # distance from the source, -1: cut off from it
    at: Array  # the edge that a search has come to
    path: Array
    priced: Array  # of each value, the edge that has the price; -1: none
    K: Array


def new_cut(program: Any) -> Cut:
    """Room for the graph of any moment of the program."""
    values, n_ops = len(program.values), len(program.ops) - 1
    nodes = values + n_ops + 2
    return Cut(
        G=np.zeros((2 * (2 * values + n_ops + len(program.ins)), 4), np.int64),
        first=np.zeros(nodes, np.int64),
        level=np.zeros(nodes, np.int64),
        at=np.zeros(nodes, np.int64),
        path=np.zeros(nodes, np.int64),
        priced=np.zeros(values, np.int64),
        K=np.zeros(4, np.int64),
    )


@inlined
def _edge(C: Cut, a: int, b: int, capacity: int) -> int:
    e = C.K[N_EDGES]
    C.K[N_EDGES] += 2
    C.G[e, G_TO] = b
    C.G[e, G_FULL] = capacity
    C.G[e, G_NEXT] = C.first[a]
    C.first[a] = e
    C.G[e + 1, G_TO] = a
    C.G[e + 1, G_FULL] = 0
    C.G[e + 1, G_NEXT] = C.first[b]
    C.first[b] = e + 1
    return e


@inlined
def _of_the_moment(R: Rehearsal, v: int, moment: int) -> bool:
    """Whether v is an input or an output of the op, and so is there anyway."""
    there = R.V[v, PRODUCER] == moment
    for k in range(R.O[moment, INS], R.O[moment + 1, INS]):
        there |= R.ins[k] == v
    return there


@inlined
def _overwritten(R: Rehearsal, v: int, moment: int) -> bool:
    """Whether an op has mutated v by then, in place."""
    over = False
    if R.K[R_IN_PLACE]:
        for j in range(R.V[v, USES], R.V[v, USES_END]):
            op = R.uses[j]
            if op <= moment:
                for k in range(R.O[op, OUTS], R.O[op, TEMPS]):
                    over |= R.V[R.outs[k], OLDER] == v
    return over


@kernel
def draw(R: Rehearsal, C: Cut, moment: int) -> None:
    """The graph for the moment at which op `moment` runs."""
    values, ops = R.V.shape[0], R.O.shape[0] - 1
    source, sink = values + ops, values + ops + 1
    C.K[N_EDGES] = 0
    total = 1
    for p in range(ops):
        total += R.O[p, DECIDE]
    C.K[N_SCALE] = max(_ALL_COSTS // total, 1)
    for node in range(C.first.shape[0]):
        C.first[node] = -1
    for v in range(values):
        C.priced[v] = -1
        p = R.V[v, PRODUCER]
        if R.V[v, EVICTABLE] == 0 or p > moment:
            continue
        if R.V[v, USES_END] > R.V[v, USES] and R.uses[R.V[v, USES_END] - 1] > moment:
            _edge(C, source, v, _NO_LIMIT)
        if _overwritten(R, v, moment):
            _edge(C, v, values + p, _NO_LIMIT)
        elif not _of_the_moment(R, v, moment):
            C.priced[v] = _edge(C, v, values + p, 0)
    for p in range(moment + 1):
        _edge(C, values + p, sink, R.O[p, DECIDE] * C.K[N_SCALE])
        for k in range(R.O[p, INS], R.O[p + 1, INS]):
            if R.V[R.ins[k], EVICTABLE]:
                _edge(C, values + p, R.ins[k], _NO_LIMIT)


@kernel
def cut(R: Rehearsal, C: Cut, price: float) -> None:
    """The least of cost + price x bytes. What is to be made again is on the source's side: C.level is not -1."""
    _set_prices(R, C, price, 0.0, -1)
    _find(R, C)


@kernel
def _set_prices(R: Rehearsal, C: Cut, price: float, tilt: float, early: int) -> None:
    """What keeping each value costs: by `tilt` more if an op up to `early` made it, else by `tilt` less."""
    for e in range(C.K[N_EDGES]):
        C.G[e, G_LEFT] = C.G[e, G_FULL]
    for v in range(R.V.shape[0]):
        if C.priced[v] >= 0:
            tilted = price * (1.0 + tilt if R.V[v, PRODUCER] <= early else 1.0 - tilt)
            capacity = tilted * float(R.V[v, BYTES]) * float(C.K[N_SCALE])
            C.G[C.priced[v], G_LEFT] = int(min(capacity, 4.0 * float(_ALL_COSTS)))


@kernel
def _find(R: Rehearsal, C: Cut) -> None:
    """The minimum cut at the prices that are set; its cost and bytes are without tilt."""
    source = R.V.shape[0] + R.O.shape[0] - 1
    while _measure(C, source):
        for node in range(C.first.shape[0]):
            C.at[node] = C.first[node]
        _push(C, source)
    C.K[N_COST] = C.K[N_BYTES] = 0
    for p in range(R.O.shape[0] - 1):
        if C.level[R.V.shape[0] + p] >= 0:
            C.K[N_COST] += R.O[p, DECIDE]
    for v in range(R.V.shape[0]):
        if C.priced[v] >= 0 and is_kept(R, C, v):
            C.K[N_BYTES] += R.V[v, BYTES]


@inlined
def is_kept(R: Rehearsal, C: Cut, v: int) -> bool:
    """Whether v is needed after the moment and not made again."""
    return C.level[v] >= 0 and C.level[R.V.shape[0] + R.V[v, PRODUCER]] < 0


@kernel
def _measure(C: Cut, source: int) -> bool:
    """Levels of what can still be reached. False: the sink cannot, the flow is the greatest (Dinic)."""
    for node in range(C.level.shape[0]):
        C.level[node] = -1
    C.level[source] = 0
    C.path[0] = source
    done, n = 0, 1
    while done < n:
        node = C.path[done]
        done += 1
        e = C.first[node]
        while e >= 0:
            to = C.G[e, G_TO]
            if C.G[e, G_LEFT] > 0 and C.level[to] < 0:
                C.level[to] = C.level[node] + 1
                C.path[n] = to
                n += 1
            e = C.G[e, G_NEXT]
    return C.level[source + 1] >= 0


@kernel
def _push(C: Cut, source: int) -> None:
    """Push flow along all shortest ways to the sink. C.path has the edges of the way so far."""
    sink, node, n = source + 1, source, 0
    while True:
        if node == sink:
            least = _NO_LIMIT
            for k in range(n):
                least = min(least, C.G[C.path[k], G_LEFT])
            back = 0
            for k in range(n - 1, -1, -1):
                e = C.path[k]
                C.G[e, G_LEFT] -= least
                C.G[e ^ 1, G_LEFT] += least
                if C.G[e, G_LEFT] == 0:
                    back = k
            n = back
            node = C.G[C.path[n] ^ 1, G_TO]
        e = C.at[node]
        while e >= 0 and not (C.G[e, G_LEFT] > 0 and C.level[C.G[e, G_TO]] == C.level[node] + 1):
            e = C.G[e, G_NEXT]
        C.at[node] = e
        if e >= 0:
            C.path[n] = e
            n += 1
            node = C.G[e, G_TO]
        elif n == 0:
            return
        else:
            n -= 1
            C.level[node] = -1
            node = C.G[C.path[n] ^ 1, G_TO]


@kernel
def decide(R: Rehearsal, C: Cut, moment: int) -> None:
    """Decisions for the gaps around the moment, as cut."""
    for v in range(R.V.shape[0]):
        if R.V[v, EVICTABLE] and R.V[v, PRODUCER] <= moment:
            last = v + R.V[v, USES_END]
            g = v + R.V[v, USES]
            while g < last and R.uses[g - v] <= moment:
                g += 1
            if g < last:
                R.gaps[g] = STAY if is_kept(R, C, v) or C.priced[v] < 0 else LEAVE_ONCE
            else:
                R.gaps[g] = STAY if is_kept(R, C, v) else LEAVE


@kernel
def decide_at(R: Rehearsal, C: Cut, moment: int, budget: int) -> float:
    """Decisions that leave a little more than fits into the budget while op `moment` runs; what they cost at least.

    The least is a lower bound in decision cost for any decisions that fit; negative if nothing fits. Gaps elsewhere are
    left as they are: there, all values are to stay as long as they have a use left (select.keep_all).
    """
    draw(R, C, moment)
    cut(R, C, 0.0)
    decide(R, C, moment)
    rehearse(R)
    room = budget - (R.peak[moment] - C.K[N_BYTES])
    most, cost = C.K[N_BYTES], C.K[N_COST]
    if most <= room:
        return 0.0
    cut(R, C, float(_ALL_COSTS))
    if C.K[N_BYTES] > room:
        return -1.0
    least, highest = C.K[N_BYTES], C.K[N_COST]
    while True:
        price = float(highest - cost) / float(most - least)
        cut(R, C, price)
        if C.K[N_BYTES] <= least or C.K[N_BYTES] >= most:
            break
        if C.K[N_BYTES] > room:
            most, cost = C.K[N_BYTES], C.K[N_COST]
            decide(R, C, moment)
        else:
            least, highest = C.K[N_BYTES], C.K[N_COST]
    _break_ties(R, C, moment, room, price)
    return float(cost) + price * float(most - room)


@kernel
def _break_ties(R: Rehearsal, C: Cut, moment: int, room: int, price: float) -> None:
    """Layers that are alike all leave at one price. Let only the first of them leave, as their gaps are longest."""
    more, less = -1, moment
    while less - more > 1:
        middle = (more + less) // 2
        _set_prices(R, C, price, _TILT, middle)
        _find(R, C)
        if C.K[N_BYTES] > room:
            more = middle
            decide(R, C, moment)
        else:
            less = middle
