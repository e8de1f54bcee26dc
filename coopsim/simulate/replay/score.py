"""The score of a value: what losing it costs, divided by what evicting it brings. Least is evicted first."""

from typing import NamedTuple

import numpy as np

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import call_score
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.evicted_sets import cost_of_listed, cost_with_sets, list_classes
from coopsim.simulate.replay.host import can_offload, can_recompute, offloads, price, room_on_host
from coopsim.simulate.replay.loss import back_and_memory, evicted_above, evicted_below, forward, project
from coopsim.simulate.replay.loss_cache import makes_many

_MARGIN = 1 + 1e-9
_LEHMER, _PRIME = 48271, 2147483647  # Park and Miller's generator: the same numbers with and without compilation


_APART = 1_618_033_987  # prime to the period, so that no two seeds begin alike


def random_state(seed: int) -> int:
    """Where the generator begins."""
    return (s.FIRST_RANDOM - 1 + seed * _APART) % (_PRIME - 1) + 1


class Terms(NamedTuple):
    """What all scores of one search have in common. In registers, where the state's arrays would be read each time."""

    cost: int
    divisor: int
    recency: int
    clock: int
    step_clock: int
    now: int
    user_score: int
    offloads: bool


@inlined
def terms_of(S: s.State) -> Terms:
    """The terms as they stand."""
    return Terms(
        S.choice[s.C_COST],
        S.choice[s.C_DIVISOR],
        S.choice[s.C_RECENCY],
        S.K[s.K_CLOCK],
        S.K[s.K_STEP_CLOCK],
        S.K[s.K_NOW],
        S.K[s.K_USER_SCORE],
        offloads(S),
    )


@inlined
def score(S: s.State, terms: Terms, block: int, v: int) -> float:
    """cost of loss / recency / size of v in its block; infinite for a value that was used just now.

    The cost is asked for in any case: that shortens paths in the sets, as in OneFlow, and draws a random number.
    """
    return divided(S, terms, block, v, cost_of_loss(S, terms, block, v))


@inlined
def is_hopeless(S: s.State, terms: Terms, block: int, v: int, least: float) -> bool:
    """Whether v is seen to score above `least` without a division, from what is known of its cost.

    Sure: a score is some roundings away from cost / recency / size, which is far less than the margin. Costs that must
    be asked for, as that changes something, are not judged.
    """
    kind = terms.cost
    if terms.user_score != 0 or kind in (codes.COST_PROJECTED, codes.COST_RANDOM):
        return False
    known = S.P[block, s.COST_OF_LOSS]
    if known == s.UNKNOWN and kind in (codes.COST_NONE, codes.COST_OWN, codes.COST_SET):
        return False
    cost = known if known != s.UNKNOWN else S.V[v, s.OWN]
    if terms.offloads:  # by which it costs at least a copy
        cost = min(cost, S.copies[v, s.COPY_NS])
    limit = least * _distance(S, terms, block, v)
    if terms.divisor != codes.DIVISOR_NOTHING:
        limit *= float(_room(S.P, block, terms.divisor == codes.DIVISOR_HOLE))
    limit *= _MARGIN
    if float(cost) > limit:
        return True
    if kind != codes.COST_CLASSES or known == s.UNKNOWN or terms.offloads:
        return False
    listed = cost_of_listed(S, v)
    return listed != s.UNKNOWN and float(cost + listed) > limit


@inlined
def divided(S: s.State, terms: Terms, block: int, v: int, cost: float) -> float:
    """Cost / recency / size."""
    result = np.inf
    distance = _distance(S, terms, block, v)
    if terms.user_score != 0 and cost < np.inf:  # infinite: it cannot be lost, whatever the user's score says
        nbytes, hole = _room(S.P, block, False), _room(S.P, block, True)
        result = call_score(terms.user_score, cost, distance, float(nbytes), float(hole))
    elif distance > 0.0:
        result = cost / distance
        if terms.divisor != codes.DIVISOR_NOTHING:
            result /= float(_room(S.P, block, terms.divisor == codes.DIVISOR_HOLE))
    return result


@inlined
def _distance(S: s.State, terms: Terms, block: int, v: int) -> float:
    """How far away the use of v is that counts: decision cost since the last, or ops to the next (infinite: none)."""
    distance = 1.0
    if terms.recency == codes.RECENCY_STALENESS:
        distance = float(terms.clock - S.P[block, s.LAST_USE])
    elif terms.recency == codes.RECENCY_NEXT_USE:
        at = S.V[v, s.NEXT_AT]
        while at < S.V[v, s.USES_END] and S.uses[at] < terms.now:
            at += 1
        S.V[v, s.NEXT_AT] = at
        distance = float(S.uses[at] - terms.now) if at < S.V[v, s.USES_END] else np.inf
    elif terms.recency == codes.RECENCY_DAMPED:
        staleness, elapsed = float(terms.clock - S.P[block, s.LAST_USE]), float(terms.clock - terms.step_clock)
        distance = min(staleness, 0.2 * elapsed) + 0.1 * (staleness + elapsed)
    return distance


@inlined
def cost_of_loss(S: s.State, terms: Terms, block: int, v: int) -> float:
    """What losing v would cost, in decision cost, in the way that costs less. Infinite: it cannot be lost now."""
    return _cost_of_either(S, block, v) if terms.offloads else cost_of_recomputing(S, terms, block, v)


@kernel
def _cost_of_either(S: s.State, block: int, v: int) -> float:
    """The same where the policy offloads; infinite if there is no way to lose v now."""
    recompute, offload = can_recompute(S, v), can_offload(S, v, room_on_host(S))
    copying = float(price(S, v)) if offload else np.inf
    if not recompute and not offload:
        return np.inf
    terms = terms_of(S)
    if terms.cost in (codes.COST_NONE, codes.COST_RANDOM):  # no times
        return cost_of_recomputing(S, terms, block, v)
    if terms.cost == codes.COST_PROJECTED:
        back, memory = back_and_memory(S, v)
        return forward(S, v) * (min(back, copying) if recompute else copying) * memory
    return min(cost_of_recomputing(S, terms, block, v), copying) if recompute else copying


@kernel
def is_recomputed(S: s.State, v: int) -> bool:
    """Whether v, which can be lost, is lost so that an op makes it again: that costs no more, or there is no choice."""
    terms = terms_of(S)
    if not can_recompute(S, v) or not can_offload(S, v, room_on_host(S)):
        return can_recompute(S, v)
    if terms.cost in (codes.COST_NONE, codes.COST_RANDOM):
        cost = float(S.V[v, s.OWN])
    elif terms.cost == codes.COST_PROJECTED:
        project(S)
        cost, _ = back_and_memory(S, v)
    else:
        cost = cost_of_recomputing(S, terms, S.V[v, s.BLOCK], v)
    return cost <= float(price(S, v))


@inlined
def cost_of_recomputing(S: s.State, terms: Terms, block: int, v: int) -> float:
    """What losing v would cost if it were dropped (types.Cost). Mostly the block knows."""
    known = S.P[block, s.COST_OF_LOSS]
    if terms.cost == codes.COST_CLASSES and known != s.UNKNOWN:
        listed = cost_of_listed(S, v)
        known = s.UNKNOWN if listed == s.UNKNOWN else known + listed
    return float(known) if known != s.UNKNOWN else _query(S, block, v)


@kernel
def _query(S: s.State, block: int, v: int) -> float:
    """The cost of losing v now. The block keeps it, unless it is another one each time."""
    kind = S.choice[s.C_COST]
    if kind == codes.COST_PROJECTED:
        back, memory = back_and_memory(S, v)
        return forward(S, v) * back * memory
    if kind == codes.COST_RANDOM:
        S.K[s.K_RANDOM] = S.K[s.K_RANDOM] * _LEHMER % _PRIME
        return float(S.K[s.K_RANDOM])
    S.K[s.K_QUERIES] += kind != codes.COST_SET
    cost = known = 1 if kind == codes.COST_NONE else S.V[v, s.OWN]
    if kind == codes.COST_SET:
        cost = known = cost_with_sets(S, v)
        if makes_many(S, S.V[v, s.PRODUCER]):
            known = s.UNKNOWN
    elif kind == codes.COST_CLASSES:
        cost += list_classes(S, v)
    elif kind == codes.COST_NEIGHBOURHOOD:
        cost = known = cost + evicted_above(S, v) + evicted_below(S, v)
    elif kind == codes.COST_ANCESTORS:
        cost = known = cost + evicted_above(S, v)
    S.P[block, s.COST_OF_LOSS] = known
    return float(cost)


@inlined
def _room(P: s.Array, block: int, with_neighbours: bool) -> int:
    """Bytes of a block, or of the hole that would be there without it."""
    size = P[block, s.LENGTH]
    if with_neighbours:
        following, prev = P[block, s.NEXT], P[block, s.PREV]
        if following >= 0 and P[following, s.VALUE] < 0:
            size += P[following, s.LENGTH]
        if prev >= 0 and P[prev, s.VALUE] < 0:
            size += P[prev, s.LENGTH]
    return size
