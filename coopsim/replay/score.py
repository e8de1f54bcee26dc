"""The score of a value: what losing it costs, divided by what evicting it brings. Least is evicted first."""

import numpy as np

from coopsim.kernel.call import call_score
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    C_COST,
    C_DIVISOR,
    C_RECENCY,
    INS,
    K_CLOCK,
    K_NOW,
    K_RANDOM,
    K_USER_SCORE,
    LAST_USE,
    LENGTH,
    NEXT,
    NEXT_AT,
    OUTS,
    OWN,
    PIECE,
    PREV,
    PRODUCER,
    TEMPS,
    USES_END,
    VALUE,
    Array,
    State,
)
from coopsim.replay.relatives import (
    back_and_memory,
    classes_around,
    evicted_above,
    evicted_below,
    forward,
    set_cost,
)

COST_NONE, COST_OWN, COST_SET, COST_CLASSES, COST_NEIGHBOURHOOD, COST_ANCESTORS, COST_PROJECTED, COST_RANDOM = range(8)
BY_NOTHING, BY_BYTES, BY_HOLE = range(3)
STALENESS, NEXT_USE, ANY_TIME = range(3)
_LEHMER, _PRIME = 48271, 2147483647  # Park and Miller's generator: the same numbers with and without compilation


@inlined
def score(S: State, v: int) -> float:
    """cost of loss / recency / size; infinite for a value that was used just now.

    The cost is asked for in any case: that shortens paths in the sets, as in OneFlow, and draws a random number.
    """
    result = np.inf
    cost = cost_of_loss(S, v)
    distance = _distance(S, v)
    if S.K[K_USER_SCORE] != 0:
        nbytes, hole = _room(S.P, S.V[v, PIECE], False), _room(S.P, S.V[v, PIECE], True)
        result = call_score(S.K[K_USER_SCORE], cost, distance, float(nbytes), float(hole))
    elif distance > 0.0:
        result = cost / distance
        if S.choice[C_DIVISOR] != BY_NOTHING:
            result /= float(_room(S.P, S.V[v, PIECE], S.choice[C_DIVISOR] == BY_HOLE))
    return result


@inlined
def _distance(S: State, v: int) -> float:
    """How far away the use of v is that counts: decision cost since the last, or ops to the next (infinite: none)."""
    distance = 1.0
    if S.choice[C_RECENCY] == STALENESS:
        distance = float(S.K[K_CLOCK] - S.V[v, LAST_USE])
    elif S.choice[C_RECENCY] == NEXT_USE:
        at = S.V[v, NEXT_AT]
        while at < S.V[v, USES_END] and S.uses[at] < S.K[K_NOW]:
            at += 1
        S.V[v, NEXT_AT] = at
        distance = float(S.uses[at] - S.K[K_NOW]) if at < S.V[v, USES_END] else np.inf
    return distance


@inlined
def cost_of_loss(S: State, v: int) -> float:
    """What losing v would cost, in decision cost (types.Cost)."""
    kind = S.choice[C_COST]
    cost = 1.0
    if kind == COST_SET:
        cost = float(_with_sets(S, v))
    elif kind != COST_NONE:
        cost = _rarer_cost(S, v, kind)
    return cost


@inlined
def _with_sets(S: State, v: int) -> int:
    """Own cost, and for evicted inputs of the producer and siblings the larger of set and own cost (OneFlow)."""
    V = S.V
    op, cost = V[v, PRODUCER], V[v, OWN]
    for k in range(S.O[op, INS], S.O[op + 1, INS]):
        if V[S.ins[k], PIECE] < 0:
            cost += set_cost(V, S.ins[k])
    for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
        if V[S.outs[k], PIECE] < 0:
            cost += set_cost(V, S.outs[k])
    return cost


@kernel
def _rarer_cost(S: State, v: int, kind: int) -> float:
    cost = float(S.V[v, OWN])
    if kind == COST_CLASSES:
        cost += float(classes_around(S, v))
    elif kind == COST_NEIGHBOURHOOD:
        cost += float(evicted_above(S, v) + evicted_below(S, v))
    elif kind == COST_ANCESTORS:
        cost += float(evicted_above(S, v))
    elif kind == COST_PROJECTED:
        back, memory = back_and_memory(S, v)
        cost = forward(S, v) * back * memory
    elif kind == COST_RANDOM:
        S.K[K_RANDOM] = S.K[K_RANDOM] * _LEHMER % _PRIME
        cost = float(S.K[K_RANDOM])
    return cost


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
