"""simrd's heuristics, and its choice among the pool: the least score, the last one of equals, and 0 ends the search.

With c the cost of the ops that made a storage's tensors, m its bytes, t the time since it was last asked for (a sum of
costs):

    dtr         (c + cost of the evicted below + cost of the evicted above) / (m t)     class DTR
    dtr-eq      (c + cost of the different classes of evicted neighbours) / (m t)       class DTREqClass
    dtr-local   c / (m t)                                                               class DTRLocal
    msps        (c + cost of the evicted above) / m                                     class MSPS
    lru         time when it was last asked for                                         class LRU
    largest     1 / m                                                                   class LargestStorage

A score is infinite where its denominator is 0. simrd divides Python's integers, which rounds the exact quotient once.
Doubles round the product as well; so where two scores are nearly the same both are rounded exactly before they are held
against each other, and ties are ties exactly where simrd has them.
"""

import numpy as np

from coopsim.simulate.kernel.jit import inlined, kernel
from tests.peers.simrd import state as s
from tests.peers.simrd.classes import cost_of_classes
from tests.peers.simrd.regions import flush
from tests.peers.simrd.walk import refresh_down, refresh_up

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
def rounded_quotient(c: int, m: int, t: int) -> float:
    """c / (m t), rounded once. For |c|, m, t below 2^53.

    The quotient of the rounded product, plus the remainder divided again: right unless the exact quotient lies within
    2^-100 of the middle between two doubles, relatively; it cannot be that middle, because c has less than 54 bits.
    """
    numerator, a, b = float(c), float(m), float(t)
    p, e = a * b, _product_error(a, b)
    q = numerator / p
    remainder = ((numerator - q * p) - _product_error(q, p)) - q * e
    return q + remainder / p


@inlined
def _at_most(score: float, c: int, m: int, t: int, least: float, best_c: int, best_m: int, best_t: int) -> bool:
    """Whether c / (m t), nearly `score`, is at most best_c / (best_m best_t), nearly `least`, once both are rounded."""
    if least == np.inf:
        return True
    slack = _NEAR * abs(least)
    if score < least - slack:
        return True
    if score > least + slack:
        return False
    if c == best_c and m == best_m and t == best_t:
        return True
    return rounded_quotient(c, m, t) <= rounded_quotient(best_c, best_m, best_t)


@inlined
def _quotient(c: int, m: int, t: int) -> float:
    score = np.inf
    if m > 0 and t > 0:
        score = float(c) / (float(m) * float(t))
    return score


@inlined
def _staleness(S: s.SimrdState, v: int) -> int:
    return S.K[s.K_CLOCK] - S.V[v, s.LAST] if S.K[s.K_STALENESS] else 1


@kernel
def _least_quotient(S: s.SimrdState) -> int:
    """dtr-local, dtr-eq: the storage of the pool with the least quotient."""
    V, classes = S.V, S.K[s.K_POLICY] == s.EQ_CLASS
    best, least = -1, np.inf
    best_c, best_m, best_t = 0, 1, 1
    scores = 0
    v = S.K[s.K_HEAD]
    while v >= 0:
        scores += 1
        c, m, staleness = V[v, s.COMPUTE], V[v, s.BYTES], _staleness(S, v)
        if classes:
            c += cost_of_classes(S, v)
        score = _quotient(c, m, staleness)
        if _at_most(score, c, m, staleness, least, best_c, best_m, best_t):
            best, least = v, score
            best_c, best_m, best_t = c, m, staleness
        if score == 0:
            break
        v = V[v, s.NEXT]
    S.K[s.K_SCORES] += scores
    return best


@inlined
def _known_cost(S: s.SimrdState, v: int) -> int:
    """Cost of v and its regions, or less if they are stale."""
    cost = S.V[v, s.COMPUTE] + S.V[v, s.UP]
    if S.K[s.K_REGIONS] == s.BOTH:
        cost += S.V[v, s.DOWN]
    return cost


@inlined
def _full_cost(S: s.SimrdState, v: int) -> int:
    """Cost of v and its regions."""
    if S.V[v, s.STALE] & s.UP_STALE:
        refresh_up(S, v)
    if S.K[s.K_REGIONS] == s.BOTH and S.V[v, s.STALE] & s.DOWN_STALE:
        refresh_down(S, v)
    return _known_cost(S, v)


@kernel
def _least_with_regions(S: s.SimrdState) -> int:
    """dtr, msps: the storage of the pool with the least quotient.

    What is known of stale regions gives a lower bound of the score. The full score of the storage with the least bound
    is an upper bound of the least score, and regions whose bound lies above it need no sum.
    """
    flush(S)
    V = S.V
    likely, enough = -1, np.inf
    v = S.K[s.K_HEAD]
    while v >= 0:
        bound = _quotient(_known_cost(S, v), V[v, s.BYTES], _staleness(S, v))
        if bound < enough:
            likely, enough = v, bound
        v = V[v, s.NEXT]
    if likely >= 0:
        enough = _quotient(_full_cost(S, likely), V[likely, s.BYTES], _staleness(S, likely))
    best, least = -1, np.inf
    best_c, best_m, best_t = 0, 1, 1
    scores = 0
    v = S.K[s.K_HEAD]
    while v >= 0:
        scores += 1
        c, m, staleness = _known_cost(S, v), V[v, s.BYTES], _staleness(S, v)
        score = _quotient(c, m, staleness)
        if enough == np.inf or score <= enough + _NEAR * enough:
            c = _full_cost(S, v)
            score = _quotient(c, m, staleness)
            if _at_most(score, c, m, staleness, least, best_c, best_m, best_t):
                best, least = v, score
                best_c, best_m, best_t = c, m, staleness
                enough = min(enough, least)
            if score == 0:
                break
        v = V[v, s.NEXT]
    S.K[s.K_SCORES] += scores
    return best


@kernel
def _least_recent(S: s.SimrdState) -> int:
    """lru: the storage of the pool that was asked for longest ago."""
    V = S.V
    v = best = S.K[s.K_HEAD]
    least = V[best, s.LAST]
    scores = 0
    while v >= 0:
        scores += 1
        if V[v, s.LAST] <= least:
            best, least = v, V[v, s.LAST]
        v = V[v, s.NEXT]
    S.K[s.K_SCORES] += scores
    return best


@kernel
def _largest(S: s.SimrdState) -> int:
    """largest: the storage of the pool with the most bytes."""
    V = S.V
    v = best = S.K[s.K_HEAD]
    most = V[best, s.BYTES]
    scores = 0
    while v >= 0:
        scores += 1
        if V[v, s.BYTES] >= most:
            best, most = v, V[v, s.BYTES]
        v = V[v, s.NEXT]
    S.K[s.K_SCORES] += scores
    return best


@inlined
def choose(S: s.SimrdState) -> int:
    """What the policy evicts next; the pool must not be empty."""
    if S.K[s.K_REGIONS]:
        return _least_with_regions(S)
    if S.K[s.K_POLICY] == s.LRU:
        return _least_recent(S)
    return _largest(S) if S.K[s.K_POLICY] == s.LARGEST else _least_quotient(S)
