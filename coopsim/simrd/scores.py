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
from coopsim.simrd.regions import settle
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
from coopsim.simrd.walk import refresh_down, refresh_up

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
def _at_most(score: float, c: int, m: int, s: int, least: float, best_c: int, best_m: int, best_s: int) -> bool:
    """Whether c / (m s), nearly `score`, is at most best_c / (best_m best_s), nearly `least`, once both are rounded."""
    if least == np.inf:
        return True
    slack = _NEAR * abs(least)
    if score < least - slack:
        return True
    if score > least + slack:
        return False
    if c == best_c and m == best_m and s == best_s:
        return True
    return rounded_quotient(c, m, s) <= rounded_quotient(best_c, best_m, best_s)


@inlined
def _quotient(c: int, m: int, s: int) -> float:
    score = np.inf
    if m > 0 and s > 0:
        score = float(c) / (float(m) * float(s))
    return score


@inlined
def _staleness(S: State, s: int) -> int:
    return S.K[K_CLOCK] - S.V[s, LAST] if S.K[K_STALENESS] else 1


@kernel
def _least_quotient(S: State) -> int:
    """dtr-local, dtr-eq: the storage of the pool with the least quotient."""
    V, classes = S.V, S.K[K_POLICY] == EQ_CLASS
    best, least = -1, np.inf
    best_c, best_m, best_s = 0, 1, 1
    scores = 0
    s = S.K[K_HEAD]
    while s >= 0:
        scores += 1
        c, m, staleness = V[s, COMPUTE], V[s, BYTES], _staleness(S, s)
        if classes:
            c += cost_of_classes(S, s)
        score = _quotient(c, m, staleness)
        if _at_most(score, c, m, staleness, least, best_c, best_m, best_s):
            best, least = s, score
            best_c, best_m, best_s = c, m, staleness
        if score == 0:
            break
        s = V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@inlined
def _known_cost(S: State, s: int) -> int:
    """Cost of s and its regions, or less if they are stale."""
    cost = S.V[s, COMPUTE] + S.V[s, UP]
    if S.K[K_REGIONS] == BOTH:
        cost += S.V[s, DOWN]
    return cost


@inlined
def _full_cost(S: State, s: int) -> int:
    """Cost of s and its regions."""
    if S.V[s, STALE] & UP_STALE:
        refresh_up(S, s)
    if S.K[K_REGIONS] == BOTH and S.V[s, STALE] & DOWN_STALE:
        refresh_down(S, s)
    return _known_cost(S, s)


@kernel
def _least_with_regions(S: State) -> int:
    """dtr, msps: the storage of the pool with the least quotient.

    What is known of stale regions gives a lower bound of the score. The full score of the storage with the least bound
    is an upper bound of the least score, and regions whose bound lies above it need no sum.
    """
    settle(S)
    V = S.V
    likely, enough = -1, np.inf
    s = S.K[K_HEAD]
    while s >= 0:
        bound = _quotient(_known_cost(S, s), V[s, BYTES], _staleness(S, s))
        if bound < enough:
            likely, enough = s, bound
        s = V[s, NEXT]
    if likely >= 0:
        enough = _quotient(_full_cost(S, likely), V[likely, BYTES], _staleness(S, likely))
    best, least = -1, np.inf
    best_c, best_m, best_s = 0, 1, 1
    scores = 0
    s = S.K[K_HEAD]
    while s >= 0:
        scores += 1
        c, m, staleness = _known_cost(S, s), V[s, BYTES], _staleness(S, s)
        score = _quotient(c, m, staleness)
        if enough == np.inf or score <= enough + _NEAR * enough:
            c = _full_cost(S, s)
            score = _quotient(c, m, staleness)
            if _at_most(score, c, m, staleness, least, best_c, best_m, best_s):
                best, least = s, score
                best_c, best_m, best_s = c, m, staleness
                enough = min(enough, least)
            if score == 0:
                break
        s = V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@kernel
def _least_recent(S: State) -> int:
    """lru: the storage of the pool that was asked for longest ago."""
    V = S.V
    s = best = S.K[K_HEAD]
    least = V[best, LAST]
    scores = 0
    while s >= 0:
        scores += 1
        if V[s, LAST] <= least:
            best, least = s, V[s, LAST]
        s = V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@kernel
def _largest(S: State) -> int:
    """largest: the storage of the pool with the most bytes."""
    V = S.V
    s = best = S.K[K_HEAD]
    most = V[best, BYTES]
    scores = 0
    while s >= 0:
        scores += 1
        if V[s, BYTES] >= most:
            best, most = s, V[s, BYTES]
        s = V[s, NEXT]
    S.K[K_SCORES] += scores
    return best


@inlined
def choose(S: State) -> int:
    """What the policy evicts next; the pool must not be empty."""
    if S.K[K_REGIONS]:
        return _least_with_regions(S)
    if S.K[K_POLICY] == LRU:
        return _least_recent(S)
    return _largest(S) if S.K[K_POLICY] == LARGEST else _least_quotient(S)
