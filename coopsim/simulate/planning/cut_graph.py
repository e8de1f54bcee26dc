"""The graph of a cut at one moment (cut.py), and its greatest flow (Dinic)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.kernel.reference import Bundle

NO_LIMIT = 1 << 60

# edges: a row per edge, and its reverse beside it. EDGE_FULL is its capacity, EDGE_LEFT what is left of it.
EDGE_TO, EDGE_NEXT, EDGE_FULL, EDGE_LEFT = range(4)

# K: numbers.
CUT_EDGES, CUT_COST, CUT_BYTES, CUT_SCALE = range(4)


class CutGraph(Bundle):
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


def new_cut(program: Any) -> CutGraph:
    """Room for the graph of any moment of the program."""
    values, n_ops = len(program.values), len(program.ops) - 1
    nodes = values + n_ops + 2
    return CutGraph(
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
def edge(graph: CutGraph, a: int, b: int, capacity: int) -> int:
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


@kernel
def measure(graph: CutGraph, source: int) -> bool:
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
def push(graph: CutGraph, source: int) -> None:
    """Push flow along all shortest ways to the sink. graph.path has the edges of the way so far."""
    sink, node, n = source + 1, source, 0
    while True:
        if node == sink:
            least = NO_LIMIT
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
