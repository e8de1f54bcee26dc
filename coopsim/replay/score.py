"""The score of a value: what losing it costs, divided by what evicting it brings. Least is evicted first."""

from typing import NamedTuple

import numpy as np

from coopsim.kernel import codes
from coopsim.kernel.call import call_score
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    C_COST,
    C_DIVISOR,
    C_RECENCY,
    COST_OF_LOSS,
    K_ASKED,
    K_CLOCK,
    K_NOW,
    K_RANDOM,
    K_STEP_CLOCK,
    K_USER_SCORE,
    LAST_USE,
    LENGTH,
    NEXT,
    NEXT_AT,
    OWN,
    PREV,
    UNKNOWN,
    USES_END,
    VALUE,
    Array,
    State,
)
from coopsim.replay.loss.classes import cost_of_listed, list_classes
from coopsim.replay.loss.projection import back_and_memory, forward
from coopsim.replay.loss.union_find import cost_with_sets
from coopsim.replay.loss.walks import evicted_above, evicted_below

_MARGIN = 1 + 1e-9
_LEHMER, _PRIME = 48271, 2147483647  # Park and Miller's generator: the same numbers with and without compilation


class Terms(NamedTuple):
    """What all scores of one search have in common. In registers, where the state's arrays would be read each time."""

    cost: int
    divisor: int
    recency: int
    clock: int
    step_clock: int
    now: int
    user_score: int


@inlined
def terms_of(S: State) -> Terms:
    """The terms as they stand."""
    return Terms(
        S.choice[C_COST],
        S.choice[C_DIVISOR],
        S.choice[C_RECENCY],
        S.K[K_CLOCK],
        S.K[K_STEP_CLOCK],
        S.K[K_NOW],
        S.K[K_USER_SCORE],
    )


@inlined
def score(S: State, terms: Terms, piece: int, v: int) -> float:
    """cost of loss / recency / size of v in its piece; infinite for a value that was used just now.

    The cost is asked for in any case: that shortens paths in the sets, as in OneFlow, and draws a random number.
    """
    return divided(S, terms, piece, v, cost_of_loss(S, terms, piece, v))


@inlined
def is_hopeless(S: State, terms: Terms, piece: int, v: int, least: float) -> bool:
    """Whether v is seen to score above `least` without a division, from what is known of its cost.

    Sure: a score is some roundings away from cost / recency / size, which is far less than the margin. Costs that must
    be asked for, as that changes something, are not judged.
    """
    kind = terms.cost
    if terms.user_score != 0 or kind in (codes.COST_PROJECTED, codes.COST_RANDOM):
        return False
    known = S.P[piece, COST_OF_LOSS]
    if known == UNKNOWN and kind in (codes.COST_NONE, codes.COST_OWN, codes.COST_SET):
        return False
    cost = known if known != UNKNOWN else S.V[v, OWN]
    limit = least * _distance(S, terms, piece, v)
    if terms.divisor != codes.DIVISOR_NOTHING:
        limit *= float(_room(S.P, piece, terms.divisor == codes.DIVISOR_HOLE))
    limit *= _MARGIN
    if float(cost) > limit:
        return True
    if kind != codes.COST_CLASSES or known == UNKNOWN:
        return False
    listed = cost_of_listed(S, v)
    return listed != UNKNOWN and float(cost + listed) > limit


@inlined
def divided(S: State, terms: Terms, piece: int, v: int, cost: float) -> float:
    """Cost / recency / size."""
    result = np.inf
    distance = _distance(S, terms, piece, v)
    if terms.user_score != 0:
        nbytes, hole = _room(S.P, piece, False), _room(S.P, piece, True)
        result = call_score(terms.user_score, cost, distance, float(nbytes), float(hole))
    elif distance > 0.0:
        result = cost / distance
        if terms.divisor != codes.DIVISOR_NOTHING:
            result /= float(_room(S.P, piece, terms.divisor == codes.DIVISOR_HOLE))
    return result


@inlined
def _distance(S: State, terms: Terms, piece: int, v: int) -> float:
    """How far away the use of v is that counts: decision cost since the last, or ops to the next (infinite: none)."""
    distance = 1.0
    if terms.recency == codes.RECENCY_STALENESS:
        distance = float(terms.clock - S.P[piece, LAST_USE])
    elif terms.recency == codes.RECENCY_NEXT_USE:
        at = S.V[v, NEXT_AT]
        while at < S.V[v, USES_END] and S.uses[at] < terms.now:
            at += 1
        S.V[v, NEXT_AT] = at
        distance = float(S.uses[at] - terms.now) if at < S.V[v, USES_END] else np.inf
    elif terms.recency == codes.RECENCY_DAMPED:
        staleness, elapsed = float(terms.clock - S.P[piece, LAST_USE]), float(terms.clock - terms.step_clock)
        distance = min(staleness, 0.2 * elapsed) + 0.1 * (staleness + elapsed)
    return distance


@inlined
def cost_of_loss(S: State, terms: Terms, piece: int, v: int) -> float:
    """What losing v would cost, in decision cost (types.Cost). Mostly the piece knows."""
    known = S.P[piece, COST_OF_LOSS]
    if terms.cost == codes.COST_CLASSES and known != UNKNOWN:
        listed = cost_of_listed(S, v)
        known = UNKNOWN if listed == UNKNOWN else known + listed
    return float(known) if known != UNKNOWN else _ask(S, piece, v)


@kernel
def _ask(S: State, piece: int, v: int) -> float:
    """The cost of losing v as things stand. The piece keeps it, unless it is another one each time."""
    kind = S.choice[C_COST]
    if kind == codes.COST_PROJECTED:
        back, memory = back_and_memory(S, v)
        return forward(S, v) * back * memory
    if kind == codes.COST_RANDOM:
        S.K[K_RANDOM] = S.K[K_RANDOM] * _LEHMER % _PRIME
        return float(S.K[K_RANDOM])
    S.K[K_ASKED] += 1
    cost = known = 1 if kind == codes.COST_NONE else S.V[v, OWN]
    if kind == codes.COST_SET:
        cost = known = cost_with_sets(S, v)
    elif kind == codes.COST_CLASSES:
        cost += list_classes(S, v)
    elif kind == codes.COST_NEIGHBOURHOOD:
        cost = known = cost + evicted_above(S, v) + evicted_below(S, v)
    elif kind == codes.COST_ANCESTORS:
        cost = known = cost + evicted_above(S, v)
    S.P[piece, COST_OF_LOSS] = known
    return float(cost)


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
