"""The score of a value: what losing it costs, divided by what evicting it brings. Least is evicted first."""

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    C_COST,
    C_DIVISOR,
    C_STALENESS,
    INS,
    K_CLOCK,
    K_SCORES,
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
    State,
)

COST_NONE, COST_OWN, COST_SET = 0, 1, 2
BY_NOTHING, BY_BYTES, BY_HOLE = 0, 1, 2


@inlined
def find(S: State, v: int) -> int:
    """The root of v's set of evicted values."""
    while S.V[v, PARENT] != v:
        S.V[v, PARENT] = S.V[S.V[v, PARENT], PARENT]
        v = S.V[v, PARENT]
    return v


@inlined
def _set_cost(S: State, v: int) -> int:
    return max(S.V[find(S, v), SET], S.V[v, OWN])


@inlined
def _merge(S: State, x: int, v: int) -> None:
    """x's set joins v's."""
    a, b = find(S, x), find(S, v)
    if a != b:
        S.V[b, SET] += S.V[a, SET]
        S.V[a, PARENT] = b


@kernel
def join_evicted(S: State, v: int) -> None:
    """v has gone: its set takes in those of missing inputs and siblings (OneFlow's union-find, coop.md e)."""
    op = S.V[v, PRODUCER]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if S.V[S.ins[k], PIECE] < 0:
            _merge(S, S.ins[k], v)
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if S.V[S.outs[k], PIECE] < 0:
            _merge(S, S.outs[k], v)


@inlined
def leave_evicted(S: State, v: int) -> None:
    """v is back: its set loses what v's node stores, and v stands alone."""
    S.V[find(S, v), SET] -= S.V[v, SET]
    S.V[v, SET] = S.V[v, OWN]
    S.V[v, PARENT] = v


@inlined
def cost_of_loss(S: State, v: int) -> int:
    """What losing v would cost, in decision cost."""
    if S.choice[C_COST] == COST_NONE:
        return 1
    cost = S.V[v, OWN]
    if S.choice[C_COST] == COST_SET:
        op = S.V[v, PRODUCER]
        for k in range(S.O[op, INS], S.O[op + 1, INS]):
            if S.V[S.ins[k], PIECE] < 0:
                cost += _set_cost(S, S.ins[k])
        for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
            if S.V[S.outs[k], PIECE] < 0:
                cost += _set_cost(S, S.outs[k])
    return cost


@inlined
def score(S: State, v: int) -> float:
    """cost of loss / staleness / size; infinite for a value that was used just now."""
    S.K[K_SCORES] += 1
    result = float(cost_of_loss(S, v))
    if S.choice[C_STALENESS]:
        staleness = S.K[K_CLOCK] - S.V[v, LAST_USE]
        if staleness == 0:
            return np.inf
        result /= float(staleness)
    if S.choice[C_DIVISOR] != BY_NOTHING:
        piece = S.V[v, PIECE]
        size = S.P[piece, LENGTH]
        if S.choice[C_DIVISOR] == BY_HOLE:
            following, prev = S.P[piece, NEXT], S.P[piece, PREV]
            if following >= 0 and S.P[following, VALUE] < 0:
                size += S.P[following, LENGTH]
            if prev >= 0 and S.P[prev, VALUE] < 0:
                size += S.P[prev, LENGTH]
        result /= float(size)
    return result
