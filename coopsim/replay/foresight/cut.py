"""The cheapest way to be within the budget at one moment: what to keep, and which ops to run again for the rest.

While op e runs, every value that is needed later is either resident or made again afterwards, by its producer, which
needs its own inputs then. At a price for each byte that is resident the cheapest choice is a minimum cut of a graph:

    source -> needed(v)                   without limit, if an op of the program after e uses v
    needed(v) -> again(producer of v)     price * bytes: v is needed and not made again, so it is resident
    again(p) -> sink                      the cost of p
    again(p) -> needed(u)                 without limit, for each input u of p

Where a value may be offloaded around the moment, what it costs to have it is the lesser of the price of its bytes and
a price for its copies (copy_prices.py finds prices at which the engines are not too busy).

The higher the price, the fewer bytes are resident. The least cost in the room that there is lies above the straight
line between the two neighbouring choices that take just more and just less: a lower bound for any plan.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
from coopsim.replay.foresight.dry_run import dry_run
from coopsim.replay.foresight.dry_run_state import DryRun
from coopsim.replay.plan import LEAVE, LEAVE_ONCE, STAY

_NO_LIMIT = 1 << 60
_TILT = 0.02  # of a price, to break ties
_ALL_COSTS = 1 << 50  # what all costs come to in the graph, so that prices are rounded to less than matters

# edges: a row per edge, and its reverse beside it. EDGE_FULL is its capacity, EDGE_LEFT what is left of it.
EDGE_TO, EDGE_NEXT, EDGE_FULL, EDGE_LEFT = range(4)

# K: numbers.
CUT_EDGES, CUT_COST, CUT_BYTES, CUT_SCALE = range(4)


class Cut(Bundle):
    """The graph for one moment. Nodes are the values, the ops, the source and the sink."""

    edges: s.Array
    first: s.Array  # of each node, its first edge
    level: s.Array  # distance from the source, -1: cut off from it
    at: s.Array  # the edge that a search has come to
    path: s.Array
    priced: s.Array  # of each value, the edge that has the price; -1: none
    copy_price: NDArray[np.float64]  # of each value, for its copies; infinite: it may not be offloaded
    price: NDArray[np.float64]  # of a byte, in the last cut
    gone: s.Array  # of each value, whether it is on the host at the moment, by the last decisions
    K: s.Array


def new_cut(program: Any) -> Cut:
    """Room for the graph of any moment of the program."""
    values, n_ops = len(program.values), len(program.ops) - 1
    nodes = values + n_ops + 2
    return Cut(
        edges=np.zeros((2 * (2 * values + n_ops + len(program.ins)), 4), np.int64),
        first=np.zeros(nodes, np.int64),
        level=np.zeros(nodes, np.int64),
        at=np.zeros(nodes, np.int64),
        path=np.zeros(nodes, np.int64),
        priced=np.zeros(values, np.int64),
        copy_price=np.full(values, np.inf),
        price=np.zeros(1),
        gone=np.zeros(values, np.int64),
        K=np.zeros(4, np.int64),
    )


@inlined
def _edge(graph: Cut, a: int, b: int, capacity: int) -> int:
    e = graph.K[CUT_EDGES]
    graph.K[CUT_EDGES] += 2
    graph.edges[e, EDGE_TO] = b
    graph.edges[e, EDGE_FULL] = capacity
    graph.edges[e, EDGE_NEXT] = graph.first[a]
    graph.first[a] = e
    graph.edges[e + 1, EDGE_TO] = a
    graph.edges[e + 1, EDGE_FULL] = 0
    graph.edges[e + 1, EDGE_NEXT] = graph.first[b]
    graph.first[b] = e + 1
    return e


@inlined
def _of_the_moment(D: DryRun, v: int, moment: int) -> bool:
    """Whether v is an input or an output of the op, and so is there anyway."""
    there = D.V[v, s.PRODUCER] == moment
    for k in range(D.O[moment, s.INS], D.O[moment + 1, s.INS]):
        there |= D.ins[k] == v
    return there


@inlined
def _overwritten(D: DryRun, v: int, moment: int) -> bool:
    """Whether an op has mutated v by then, in place."""
    over = False
    for j in range(D.V[v, s.USES], D.V[v, s.USES_END]):
        op = D.uses[j]
        if op <= moment:
            for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
                over |= D.V[D.outs[k], s.OLDER] == v and D.V[D.outs[k], s.IN_PLACE] == 1
    return over


@kernel
def draw(D: DryRun, graph: Cut, moment: int) -> None:
    """The graph for the moment at which op `moment` runs."""
    values, ops = D.V.shape[0], D.O.shape[0] - 1
    source, sink = values + ops, values + ops + 1
    graph.K[CUT_EDGES] = 0
    total = 1
    for p in range(ops):
        total += D.O[p, s.DECIDE]
    graph.K[CUT_SCALE] = max(_ALL_COSTS // total, 1)
    for node in range(graph.first.shape[0]):
        graph.first[node] = -1
    for v in range(values):
        graph.priced[v] = -1
        p = D.V[v, s.PRODUCER]
        if D.V[v, s.EVICTABLE] == 0 or p > moment:
            continue
        if D.V[v, s.USES_END] > D.V[v, s.USES] and D.uses[D.V[v, s.USES_END] - 1] > moment:
            _edge(graph, source, v, _NO_LIMIT)
        if _overwritten(D, v, moment):
            _edge(graph, v, values + p, _NO_LIMIT)
        elif not _of_the_moment(D, v, moment):
            graph.priced[v] = _edge(graph, v, values + p, 0)
    for p in range(moment + 1):
        _edge(graph, values + p, sink, D.O[p, s.DECIDE] * graph.K[CUT_SCALE])
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            if D.V[D.ins[k], s.EVICTABLE]:
                _edge(graph, values + p, D.ins[k], _NO_LIMIT)


@kernel
def cut(D: DryRun, graph: Cut, price: float) -> None:
    """The least of cost + price x bytes. What is to be made again is on the source's side: graph.level is not -1."""
    _set_prices(D, graph, price, 0.0, -1)
    _find(D, graph)


@kernel
def _set_prices(D: DryRun, graph: Cut, price: float, tilt: float, early: int) -> None:
    """What keeping each value costs: by `tilt` more if an op up to `early` made it, else by `tilt` less."""
    graph.price[0] = price
    for e in range(graph.K[CUT_EDGES]):
        graph.edges[e, EDGE_LEFT] = graph.edges[e, EDGE_FULL]
    for v in range(D.V.shape[0]):
        if graph.priced[v] >= 0:
            tilted = price * (1.0 + tilt if D.V[v, s.PRODUCER] <= early else 1.0 - tilt)
            capacity = min(tilted * float(D.V[v, s.BYTES]), graph.copy_price[v]) * float(graph.K[CUT_SCALE])
            graph.edges[graph.priced[v], EDGE_LEFT] = int(min(capacity, 4.0 * float(_ALL_COSTS)))


@kernel
def _find(D: DryRun, graph: Cut) -> None:
    """The minimum cut at the prices that are set; its cost and bytes are without tilt."""
    source = D.V.shape[0] + D.O.shape[0] - 1
    while _measure(graph, source):
        for node in range(graph.first.shape[0]):
            graph.at[node] = graph.first[node]
        _push(graph, source)
    graph.K[CUT_COST] = graph.K[CUT_BYTES] = 0
    for p in range(D.O.shape[0] - 1):
        if graph.level[D.V.shape[0] + p] >= 0:
            graph.K[CUT_COST] += D.O[p, s.DECIDE]
    for v in range(D.V.shape[0]):
        if graph.priced[v] >= 0 and is_kept(D, graph, v):
            if is_away(D, graph, v):
                graph.K[CUT_COST] += int(graph.copy_price[v])
            else:
                graph.K[CUT_BYTES] += D.V[v, s.BYTES]


@inlined
def is_kept(D: DryRun, graph: Cut, v: int) -> bool:
    """Whether v is needed after the moment and not made again."""
    return graph.level[v] >= 0 and graph.level[D.V.shape[0] + D.V[v, s.PRODUCER]] < 0


@inlined
def is_away(D: DryRun, graph: Cut, v: int) -> bool:
    """Of a value that is kept, whether on the host."""
    return graph.priced[v] >= 0 and graph.copy_price[v] < graph.price[0] * float(D.V[v, s.BYTES])


@kernel
def _measure(graph: Cut, source: int) -> bool:
    """Levels of what can still be reached. False: the sink cannot, the flow is the greatest (Dinic)."""
    for node in range(graph.level.shape[0]):
        graph.level[node] = -1
    graph.level[source] = 0
    graph.path[0] = source
    done, n = 0, 1
    while done < n:
        node = graph.path[done]
        done += 1
        e = graph.first[node]
        while e >= 0:
            to = graph.edges[e, EDGE_TO]
            if graph.edges[e, EDGE_LEFT] > 0 and graph.level[to] < 0:
                graph.level[to] = graph.level[node] + 1
                graph.path[n] = to
                n += 1
            e = graph.edges[e, EDGE_NEXT]
    return graph.level[source + 1] >= 0


@kernel
def _push(graph: Cut, source: int) -> None:
    """Push flow along all shortest ways to the sink. graph.path has the edges of the way so far."""
    sink, node, n = source + 1, source, 0
    while True:
        if node == sink:
            least = _NO_LIMIT
            for k in range(n):
                least = min(least, graph.edges[graph.path[k], EDGE_LEFT])
            back = 0
            for k in range(n - 1, -1, -1):
                e = graph.path[k]
                graph.edges[e, EDGE_LEFT] -= least
                graph.edges[e ^ 1, EDGE_LEFT] += least
                if graph.edges[e, EDGE_LEFT] == 0:
                    back = k
            n = back
            node = graph.edges[graph.path[n] ^ 1, EDGE_TO]
        e = graph.at[node]
        while e >= 0 and not (
            graph.edges[e, EDGE_LEFT] > 0 and graph.level[graph.edges[e, EDGE_TO]] == graph.level[node] + 1
        ):
            e = graph.edges[e, EDGE_NEXT]
        graph.at[node] = e
        if e >= 0:
            graph.path[n] = e
            n += 1
            node = graph.edges[e, EDGE_TO]
        elif n == 0:
            return
        else:
            n -= 1
            graph.level[node] = -1
            node = graph.edges[graph.path[n] ^ 1, EDGE_TO]


@kernel
def decide(D: DryRun, graph: Cut, moment: int) -> None:
    """Decisions for the intervals around the moment, as cut."""
    for v in range(D.V.shape[0]):
        graph.gone[v] = is_kept(D, graph, v) & is_away(D, graph, v)
        if D.V[v, s.EVICTABLE] and D.V[v, s.PRODUCER] <= moment:
            last = v + D.V[v, s.USES_END]
            i = v + D.V[v, s.USES]
            while i < last and D.uses[i - v] <= moment:
                i += 1
            if i < last:
                D.decisions[i] = STAY if is_kept(D, graph, v) or graph.priced[v] < 0 else LEAVE_ONCE
            else:
                D.decisions[i] = STAY if is_kept(D, graph, v) else LEAVE


@kernel
def decide_at(D: DryRun, graph: Cut, moment: int, budget: int) -> float:
    """Decisions that leave a little more than fits into the budget while op `moment` runs; what they cost at least.

    The least is a lower bound in decision cost for any decisions that fit; negative if nothing fits. Intervals
    elsewhere are left as they are: there, all values are to stay as long as they have a use left (select.keep_all).
    """
    draw(D, graph, moment)
    cut(D, graph, 0.0)
    decide(D, graph, moment)
    dry_run(D)
    room = budget - (D.peak[moment] - graph.K[CUT_BYTES])
    most, cost = graph.K[CUT_BYTES], graph.K[CUT_COST]
    if most <= room:
        return 0.0
    cut(D, graph, float(_ALL_COSTS))
    if graph.K[CUT_BYTES] > room:
        return -1.0
    least, highest = graph.K[CUT_BYTES], graph.K[CUT_COST]
    while True:
        price = float(highest - cost) / float(most - least)
        cut(D, graph, price)
        if graph.K[CUT_BYTES] <= least or graph.K[CUT_BYTES] >= most:
            break
        if graph.K[CUT_BYTES] > room:
            most, cost = graph.K[CUT_BYTES], graph.K[CUT_COST]
            decide(D, graph, moment)
        else:
            least, highest = graph.K[CUT_BYTES], graph.K[CUT_COST]
    _break_ties(D, graph, moment, room, price)
    return float(cost) + price * float(most - room)


@kernel
def _break_ties(D: DryRun, graph: Cut, moment: int, room: int, price: float) -> None:
    """Layers that are alike all leave at one price. Let only the first of them leave, as they are idle longest."""
    more, less = -1, moment
    while less - more > 1:
        middle = (more + less) // 2
        _set_prices(D, graph, price, _TILT, middle)
        _find(D, graph)
        if graph.K[CUT_BYTES] > room:
            more = middle
            decide(D, graph, moment)
        else:
            less = middle
