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

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.cut_graph import (
    CUT_BYTES,
    CUT_COST,
    CUT_EDGES,
    CUT_SCALE,
    EDGE_FULL,
    EDGE_LEFT,
    NO_LIMIT,
    CutGraph,
    edge,
    measure,
    push,
)
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import DryRun, ProgramArrays
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY

_TILT = 0.02  # of a price, to break ties
_ALL_COSTS = 1 << 50  # what all costs come to in the graph, so that prices are rounded to less than matters


@inlined
def _of_the_moment(D: ProgramArrays, v: int, moment: int) -> bool:
    """Whether v is an input or an output of the op, and so is there anyway."""
    there = D.V[v, s.PRODUCER] == moment
    for k in range(D.O[moment, s.INS], D.O[moment + 1, s.INS]):
        there |= D.ins[k] == v
    return there


@inlined
def _overwritten(D: ProgramArrays, v: int, moment: int) -> bool:
    """Whether an op has mutated v by then, in place."""
    over = False
    for j in range(D.V[v, s.USES], D.V[v, s.USES_END]):
        op = D.uses[j]
        if op <= moment:
            for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
                over |= D.V[D.outs[k], s.OLDER] == v and D.V[D.outs[k], s.IN_PLACE] == 1
    return over


@kernel
def draw(D: ProgramArrays, graph: CutGraph, moment: int) -> None:
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
            edge(graph, source, v, NO_LIMIT)
        if _overwritten(D, v, moment):
            edge(graph, v, values + p, NO_LIMIT)
        elif not _of_the_moment(D, v, moment):
            graph.priced[v] = edge(graph, v, values + p, 0)
    for p in range(moment + 1):
        edge(graph, values + p, sink, D.O[p, s.DECIDE] * graph.K[CUT_SCALE])
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            if D.V[D.ins[k], s.EVICTABLE]:
                edge(graph, values + p, D.ins[k], NO_LIMIT)


@kernel
def cut(D: ProgramArrays, graph: CutGraph, price: float) -> None:
    """The least of cost + price x bytes. What is to be made again is on the source's side: graph.level is not -1."""
    _set_prices(D, graph, price, 0.0, -1)
    _find(D, graph)


@kernel
def _set_prices(D: ProgramArrays, graph: CutGraph, price: float, tilt: float, early: int) -> None:
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
def _find(D: ProgramArrays, graph: CutGraph) -> None:
    """The minimum cut at the prices that are set; its cost and bytes are without tilt."""
    source = D.V.shape[0] + D.O.shape[0] - 1
    while measure(graph, source):
        for node in range(graph.first.shape[0]):
            graph.at[node] = graph.first[node]
        push(graph, source)
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
def is_kept(D: ProgramArrays, graph: CutGraph, v: int) -> bool:
    """Whether v is needed after the moment and not made again."""
    return graph.level[v] >= 0 and graph.level[D.V.shape[0] + D.V[v, s.PRODUCER]] < 0


@inlined
def is_away(D: ProgramArrays, graph: CutGraph, v: int) -> bool:
    """Of a value that is kept, whether on the host."""
    return graph.priced[v] >= 0 and graph.copy_price[v] < graph.price[0] * float(D.V[v, s.BYTES])


@kernel
def decide(D: DryRun, graph: CutGraph, moment: int) -> None:
    """Decisions for the intervals around the moment, as cut."""
    for v in range(D.V.shape[0]):
        graph.gone[v] = 0
        if D.V[v, s.EVICTABLE] and D.V[v, s.PRODUCER] <= moment:
            graph.gone[v] = is_kept(D, graph, v) & is_away(D, graph, v)
            last = v + D.V[v, s.USES_END]
            i = v + D.V[v, s.USES]
            while i < last and D.uses[i - v] <= moment:
                i += 1
            if i < last:
                D.decisions[i] = STAY if is_kept(D, graph, v) or graph.priced[v] < 0 else LEAVE_ONCE
            else:
                D.decisions[i] = STAY if is_kept(D, graph, v) else LEAVE


@kernel
def decide_at(D: DryRun, graph: CutGraph, moment: int, budget: int) -> float:
    """Decisions that leave a little more than fits into the budget while op `moment` runs; what they cost at least.

    The least is a lower bound in decision cost for any decisions that fit; negative if nothing fits. Intervals
    elsewhere are left as they are: there, all values are to stay as long as they have a use left (selection.keep_all).
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
def _break_ties(D: DryRun, graph: CutGraph, moment: int, room: int, price: float) -> None:
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
