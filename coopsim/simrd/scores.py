"""simrd's heuristics, and its choice among the pool: the least score, the last one of equals, and 0 ends the search.

With c the cost of the ops that made a storage's tensors, m its bytes, s the time since it was last asked for (a sum of
costs):

    dtr         (c + cost of the evicted below + cost of the evicted above) / (m s)     class DTR
    dtr-eq      (c + cost of the different classes of evicted neighbours) / (m s)       class DTREqClass
    dtr-local   c / (m s)                                                               class DTRLocal
    msps        (c + cost of the evicted above) / m                                     class MSPS
    lru         time when it was last asked for                                         class LRU
    largest     1 / m                                                                   class LargestStorage

A score is infinite where its denominator is 0. simrd divides Python's integers, which rounds the exact quotient once.
Doubles round the product as well; so where two scores are nearly the same both are rounded exactly before they are held
against each other, and ties are ties exactly where simrd has them.
"""

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.classes import cost_of_classes
from coopsim.simrd.regions import refresh_down, refresh_up
from coopsim.simrd.state import (
    BOTH,
    BYTES,
    COMPUTE,
    DOWN,
    DOWN_STALE,
    EQ_CLASS,
    K_CLOCK,
    K_HEAD,
    K_POLICY,
    K_REGIONS,
    K_SCORES,
    K_STALENESS,
    LARGEST,
    LAST,
    LRU,
    NEXT,
    STALE,
    UP,
    UP_STALE,
    State,
)

_NEAR = 1e-15  # more than the two roundings of a quotient of products can part two equal ones
_SPLIT = 134217729.0  # 2^27 + 1 (Dekker)


@inlined
def _product_error(a: float, b: float) -> float:
    """a b - fl(a b), exactly (Dekker's product)."""
    p = a * b
    t = _SPLIT * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLIT * b
    b_high = t - (t - b)
    b_low = b - b_high
    return a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


@kernel
def rounded_quotient(c: int, m: int, s: int) -> float:
    """c / (m s), rounded once. For |c|, m, s below 2^53.

    The quotient of the rounded product, plus the remainder divided again: right unless the exact quotient lies within
    2^-100 of the middle between two doubles, relatively; it cannot be that middle, because c has less than 54 bits.
    """
    numerator, a, b = float(c), float(m), float(s)
    p, e = a * b, _product_error(a, b)
    q = numerator / p
    remainder = ((numerator - q * p) - _product_error(q, p)) - q * e
    return q + remainder / p


@inlined
def _numerator(S: State, s: int) -> int:
    """What losing s costs."""
    policy = S.K[K_POLICY]
    cost = S.V[s, COMPUTE]
    if policy == EQ_CLASS:
        cost += cost_of_classes(S, s)
    elif S.K[K_REGIONS]:
        if S.V[s, STALE] & UP_STALE:
            refresh_up(S, s)
        cost += S.V[s, UP]
        if S.K[K_REGIONS] == BOTH:
            if S.V[s, STALE] & DOWN_STALE:
                refresh_down(S, s)
            cost += S.V[s, DOWN]
    return cost


@inlined
def _denominators(S: State, s: int) -> tuple[int, int]:
    """Bytes and staleness, as far as they count."""
    staleness = S.K[K_CLOCK] - S.V[s, LAST] if S.K[K_STALENESS] else 1
    return S.V[s, BYTES], staleness


@kernel
def _least_quotient(S: State) -> int:
    """The storage of the pool with the least c / (m s)."""
    best, least = -1, np.inf
    best_c, best_m, best_s = 0, 1, 1
    scores = 0
    s = S.K[K_HEAD]
    while s >= 0:
        scores += 1
        c = 1 if S.K[K_POLICY] == LARGEST else _numerator(S, s)
        m, staleness = _denominators(S, s)
        score = np.inf
        if m > 0 and staleness > 0:
            score = float(c) / (float(m) * float(staleness))
        better = least == np.inf
        if not better and score < np.inf:
            slack = _NEAR * abs(least)
            better = score < least - slack
            if not better and score <= least + slack:
                better = rounded_quotient(c, m, staleness) <= rounded_quotient(best_c, best_m, best_s)
        if better:
            best, least = s, score
            best_c, best_m, best_s = c, m, staleness
        if score == 0:
            break
        s = S.V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@kernel
def _least_recent(S: State) -> int:
    """The storage of the pool that was asked for longest ago."""
    best = least = S.K[K_HEAD]
    least = S.V[best, LAST]
    scores = 0
    s = best
    while s >= 0:
        scores += 1
        if S.V[s, LAST] <= least:
            best, least = s, S.V[s, LAST]
        s = S.V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@inlined
def choose(S: State) -> int:
    """What the policy evicts next; the pool must not be empty."""
    return _least_recent(S) if S.K[K_POLICY] == LRU else _least_quotient(S)
