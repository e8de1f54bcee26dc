"""The two ways to find victims: one at a time (DTR, DTE), or a window of neighbours (Coop)."""

import numpy as np

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.host import can_offload, can_recompute, offloads, room_on_host
from coopsim.simulate.replay.loss import project
from coopsim.simulate.replay.preferred import has_preferred, note
from coopsim.simulate.replay.score import cost_of_loss, divided, is_hopeless, score, terms_of


@kernel
def can_go(S: s.State, v: int) -> bool:
    """Whether v, which is resident, can be lost now: no op needs it where it is, and there is a way to get it back."""
    if S.P[S.V[v, s.BLOCK], s.LOCKED] != 0:
        return False
    return not offloads(S) or can_recompute(S, v) or can_offload(S, v, room_on_host(S))


@inlined
def below_border(S: s.State, v: int) -> bool:
    """Whether v, which is resident, is where searches look: not in the area for small requests."""
    return S.P[S.V[v, s.BLOCK], s.ADDRESS] < S.K[s.K_BORDER]


@kernel
def cheapest_value(S: s.State) -> int:
    """The evictable value of least finite score, the lowest in memory on ties; -1 if there is none."""
    if S.choice[s.C_COST] == codes.COST_PROJECTED:
        project(S)
    best, least = -1, np.inf
    visits = scores = 0
    terms = terms_of(S)
    block, border = S.K[s.K_HEAD], S.K[s.K_BORDER]
    while block >= 0 and S.P[block, s.ADDRESS] < border:
        visits += 1
        v = S.P[block, s.VALUE]
        if v >= 0 and S.P[block, s.LOCKED] == 0:
            scores += 1
            if not is_hopeless(S, terms, block, v, least):
                this = score(S, terms, block, v)
                if this < least:
                    best, least = v, this
        block = S.P[block, s.NEXT]
    S.K[s.K_VISITS] += visits
    S.K[s.K_SCORES] += scores
    return best


@kernel
def cheapest_window(S: s.State, need: int, thrifty: bool) -> tuple[int, int]:
    """First and last block of the cheapest run of neighbours that holds `need` bytes; (-1, -1) if there is none.

    thrifty: by the sum of scores / the run's bytes, of the runs that would not hold `need` without their first block,
    one for each last block: one large window now may save several small ones later.

    Coop's sliding window (paper section 3.3, OneFlow's EvictAndFindPieceOnce), corrected: the last window is shrunk
    like any other, and sums never subtract (a window that ends at block i is the sum from its start to `middle`, kept
    in `suffix`, plus the sum from there on), so that no rounding piles up and an infinite score leaves no trace. Each
    block enters and leaves once: linear. One that costs as much as the best window alone counts as a barrier.
    """
    if S.choice[s.C_COST] == codes.COST_PROJECTED:
        project(S)
    first, last, least = -1, -1, np.inf
    start = middle = end = 0  # the window is run[start:end] of the blocks since the last barrier
    nbytes, right = 0, 0.0  # its bytes, and the sum of scores of run[middle:end]
    visits = scores = 0
    terms = terms_of(S)
    notes = has_preferred(S)
    run = S.scratch
    block, border = S.K[s.K_HEAD], S.K[s.K_BORDER]
    while block >= 0 and S.P[block, s.ADDRESS] < border:
        visits += 1
        this, loss = 0.0, -1.0
        barrier = S.P[block, s.LOCKED] > 0
        if not barrier and S.P[block, s.VALUE] >= 0:
            scores += 1
            loss = cost_of_loss(S, terms, block, S.P[block, s.VALUE])
            this = divided(S, terms, block, S.P[block, s.VALUE], loss)
            barrier = not thrifty and first >= 0 and this >= least  # no window with this block is cheaper than the best
            if terms.offloads and loss == np.inf:  # it cannot be lost now
                barrier, loss = True, -1.0
        if notes:
            note(S, block, loss)
        if barrier:
            start = middle = end = 0
            nbytes, right = 0, 0.0
        else:
            run[end] = block
            S.score[end] = this
            end += 1
            nbytes += S.P[block, s.LENGTH]
            right += this
            while nbytes - S.P[run[start], s.LENGTH] >= need:
                nbytes -= S.P[run[start], s.LENGTH]
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
                if thrifty:
                    cost /= float(nbytes)
                if cost < least or first < 0:
                    first, last, least = run[start], block, cost
        block = S.P[block, s.NEXT]
    S.K[s.K_VISITS] += visits
    S.K[s.K_SCORES] += scores
    return first, last


@kernel
def published_window(S: s.State, need: int) -> tuple[int, int]:
    """The same search as OneFlow's code has it (EvictAndFindPieceOnce), with its quirks (docs/replay.md).

    The loop ends when `end` leaves the memory, so the last window is not shrunk. A score of inf that enters and
    leaves makes the running sum NaN until the next barrier, and windows are missed. Ties keep the lowest.
    """
    if S.choice[s.C_COST] == codes.COST_PROJECTED:
        project(S)
    first, last, least = -1, -1, np.inf
    start = end = 0  # the window is run[start:end] of the blocks since the last barrier
    nbytes, cost = 0, 0.0
    visits = scores = 0
    terms = terms_of(S)
    run = S.scratch
    block, border = S.K[s.K_HEAD], S.K[s.K_BORDER]
    while block >= 0 and S.P[block, s.ADDRESS] < border:
        visits += 1
        if nbytes < need:
            v = S.P[block, s.VALUE]
            if S.P[block, s.LOCKED] > 0 or (terms.offloads and v >= 0 and not can_go(S, v)):
                start = end = 0
                nbytes, cost = 0, 0.0
                block = S.P[block, s.NEXT]
                continue
            this = 0.0
            if v >= 0:
                scores += 1
                this = score(S, terms, block, v)
            run[end] = block
            S.score[end] = this
            end += 1
            nbytes += S.P[block, s.LENGTH]
            cost += this
            block = S.P[block, s.NEXT]
        else:
            nbytes -= S.P[run[start], s.LENGTH]
            cost -= S.score[start]
            start += 1
        if nbytes >= need and cost < least:
            first, last, least = run[start], run[end - 1], cost
    S.K[s.K_VISITS] += visits
    S.K[s.K_SCORES] += scores
    return first, last
