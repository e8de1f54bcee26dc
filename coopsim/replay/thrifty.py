"""A window by what it costs for what it frees: one large window now may save several small ones later."""

import numpy as np

from coopsim.kernel.jit import kernel
from coopsim.kernel.state import C_COST, FAST, K_HEAD, K_SCORES, K_VISITS, LENGTH, NEXT, VALUE, State
from coopsim.replay.projection import project
from coopsim.replay.score import COST_PROJECTED, score, terms_of


@kernel
def thrifty_window(S: State, need: int) -> tuple[int, int]:
    """First and last piece of the run of neighbours with the least sum of scores / square root of its bytes.

    Of the runs that hold `need` bytes and would not without their first piece, one for each last piece, as in
    search.cheapest_window, whose way with sums this is. (-1, -1) if there is none.
    """
    if S.choice[C_COST] == COST_PROJECTED:
        project(S)
    first, last, least = -1, -1, np.inf
    start = middle = end = 0
    nbytes, right = 0, 0.0
    visits = scores = 0
    terms = terms_of(S)
    run = S.scratch
    piece = S.K[K_HEAD]
    while piece >= 0:
        visits += 1
        v = S.P[piece, VALUE]
        if S.P[piece, FAST] > 0:
            start = middle = end = 0
            nbytes, right = 0, 0.0
        else:
            s = 0.0
            if v >= 0:
                scores += 1
                s = score(S, terms, piece, v)
            run[end] = piece
            S.score[end] = s
            end += 1
            nbytes += S.P[piece, LENGTH]
            right += s
            while nbytes - S.P[run[start], LENGTH] >= need:
                nbytes -= S.P[run[start], LENGTH]
                start += 1
                if start > middle:
                    middle, right = end, 0.0
                    total = 0.0
                    for j in range(end - 1, start - 1, -1):
                        total += S.score[j]
                        S.suffix[j] = total
            if nbytes >= need:
                cost = right
                if start < middle:
                    cost += S.suffix[start]
                cost /= np.sqrt(float(nbytes))
                if cost < least or first < 0:
                    first, last, least = run[start], piece, cost
        piece = S.P[piece, NEXT]
    S.K[K_VISITS] += visits
    S.K[K_SCORES] += scores
    return first, last
