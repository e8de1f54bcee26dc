"""The score of a value: what losing it costs, divided by what evicting it brings. Least is evicted first."""

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    C_COST,
    C_DIVISOR,
    C_STALENESS,
    INS,
    K_CLOCK,
    LAST_USE,
    LENGTH,
    NEXT,
    OUTS,
    OWN,
    PARENT,
    PIECE,
    PREV,
    PRODUCER,
    SET,
    TEMPS,
    VALUE,
    Array,
    State,
)

COST_NONE, COST_OWN, COST_SET = 0, 1, 2
BY_NOTHING, BY_BYTES, BY_HOLE = 0, 1, 2


@inlined
def find(V: Array, v: int) -> int:
    """The root of v's set of evicted values."""
    while V[v, PARENT] != v:
        V[v, PARENT] = V[V[v, PARENT], PARENT]
        v = V[v, PARENT]
    return v


@inlined
def _set_cost(V: Array, v: int) -> int:
    return max(V[find(V, v), SET], V[v, OWN])


@inlined
def _merge(V: Array, x: int, v: int) -> None:
    """x's set joins v's."""
    a, b = find(V, x), find(V, v)
    if a != b:
        V[b, SET] += V[a, SET]
        V[a, PARENT] = b


@kernel
def join_evicted(S: State, v: int) -> None:
    """v has gone: its set takes in those of missing inputs and siblings (OneFlow's union-find, coop.md e)."""
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if S.V[S.ins[k], PIECE] < 0:
            _merge(S.V, S.ins[k], v)
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if S.V[S.outs[k], PIECE] < 0:
            _merge(S.V, S.outs[k], v)


@inlined
def leave_evicted(V: Array, v: int) -> None:
    """v is back: its set loses what v's node stores, and v stands alone."""
    V[find(V, v), SET] -= V[v, SET]
    V[v, SET] = V[v, OWN]
    V[v, PARENT] = v


@inlined
def cost_of_loss(S: State, v: int) -> int:
    """What losing v would cost, in decision cost."""
    V, kind = S.V, S.choice[C_COST]
    cost = V[v, OWN] if kind != COST_NONE else 1
    if kind == COST_SET:
        op = V[v, PRODUCER]
        for k in range(S.O[op, INS], S.O[op + 1, INS]):
            if V[S.ins[k], PIECE] < 0:
                cost += _set_cost(V, S.ins[k])
        for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
            if V[S.outs[k], PIECE] < 0:
                cost += _set_cost(V, S.outs[k])
    return cost


@inlined
def score(S: State, v: int) -> float:
    """cost of loss / staleness / size; infinite for a value that was used just now."""
    staleness = S.K[K_CLOCK] - S.V[v, LAST_USE] if S.choice[C_STALENESS] else 1
    result = np.inf
    if staleness > 0:
        result = float(cost_of_loss(S, v)) / float(staleness)
        if S.choice[C_DIVISOR] != BY_NOTHING:
            result /= float(_room(S.P, S.V[v, PIECE], S.choice[C_DIVISOR] == BY_HOLE))
    return result


@inlined
def _room(P: Array, piece: int, with_neighbours: bool) -> int:
    """Bytes of a piece, or of the hole that would be there without it."""
    size = P[piece, LENGTH]
    if with_neighbours:
        following, prev = P[piece, NEXT], P[piece, PREV]
        if following >= 0 and P[following, VALUE] < 0:
            size += P[following, LENGTH]
        if prev >= 0 and P[prev, VALUE] < 0:
            size += P[prev, LENGTH]
    return size
