"""Take back decisions of an iteration that fits, as far as it fits without them and is the cheaper for it."""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import D_COST, D_COUNT, DryRun
from coopsim.simulate.planning.ranges import fill, most
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY
from coopsim.simulate.planning.returns import cost_to_bring_back
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_OPEN, I_VALUE, Selection, exceeds, take_note

_MOST, _FEW = 2_000, 100  # dry runs; few of very long steps
_OPS = 20_000_000  # in them


def prune(D: DryRun, chosen: Selection, budget: int) -> None:
    """Take back what turns out not to be needed, the most expensive first."""
    _score(D, chosen)
    order = np.argsort(-chosen.score, kind="stable")
    _take_back(D, chosen, order[: np.count_nonzero(chosen.score > 0)], budget)


@kernel
def _score(D: DryRun, chosen: Selection) -> None:
    """What each decision that might be taken back costs; it is negative where there is none."""
    dry_run(D)
    _note(D, chosen)
    for i in range(chosen.idle.shape[0]):
        chosen.score[i] = -1.0
        if chosen.idle[i, I_OPEN] and D.decisions[i] != STAY and _comes_back(D, chosen, i) > 0:
            own = float(D.O[D.V[chosen.idle[i, I_VALUE], s.PRODUCER], s.DECIDE])
            chosen.score[i] = max(cost_to_bring_back(D, chosen, i), own)


@inlined
def _note(D: DryRun, chosen: Selection) -> None:
    take_note(D, chosen)
    fill(chosen.peaks, chosen.peak, 0, chosen.peak.shape[0])


@kernel
def _take_back(D: DryRun, chosen: Selection, order: s.Array, budget: int) -> None:
    """Try these intervals in turn."""
    cost, most = D.K[D_COST], D.K[D_COUNT] + max(min(_OPS // D.peak.shape[0], _MOST), _FEW)
    for k in range(len(order)):
        i = order[k]
        if chosen.score[i] > 0.0 and D.decisions[i] != STAY and D.K[D_COUNT] < most:
            chosen.score[i] = -1.0
            cost = _let_stay(D, chosen, i, budget, cost)
            if D.decisions[i] == LEAVE and _comes_back(D, chosen, i) > 1:
                cost = _let_leave_once(D, chosen, i, budget, cost)


@inlined
def _comes_back(D: DryRun, chosen: Selection, i: int) -> int:
    """How often the value does, as far as it matters: in its last interval, else in the interval and at its end."""
    v = chosen.idle[i, I_VALUE]
    return chosen.made[v] if i == v + D.V[v, s.USES_END] else 2


@kernel
def _let_stay(D: DryRun, chosen: Selection, i: int, budget: int, cost: int) -> int:
    """Let the value stay, if that fits and is cheaper. Returns the cost, which is that of the last dry run noted.

    With it stays what else its op has made and is gone at that time: the op runs again while any of it is missing.
    What is not cheaper together is not tried with another of them in its place.
    """
    op, room, cheaper = D.V[chosen.idle[i, I_VALUE], s.PRODUCER], True, True
    for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
        w = D.outs[k]
        for h in range(w + D.V[w, s.USES], w + D.V[w, s.USES_END] + 1):
            chosen.held[h] = D.decisions[h]
            together = (
                chosen.idle[h, I_BEFORE] > chosen.idle[i, I_AFTER]
                and chosen.idle[h, I_AFTER] < chosen.idle[i, I_BEFORE]
            )
            if chosen.idle[h, I_OPEN] and D.decisions[h] != STAY and together:
                D.decisions[h] = STAY
                room &= _may_stay(D, chosen, h, budget)
    if room:
        cheaper = dry_run(D) and D.K[D_COST] < cost
        if cheaper and exceeds(D, budget) == 0.0:
            _note(D, chosen)
            return D.K[D_COST]
    for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
        w = D.outs[k]
        for h in range(w + D.V[w, s.USES], w + D.V[w, s.USES_END] + 1):
            if D.decisions[h] != chosen.held[h]:
                D.decisions[h] = chosen.held[h]
                if not cheaper:
                    chosen.score[h] = -1.0
    return cost


@kernel
def _may_stay(D: DryRun, chosen: Selection, i: int, budget: int) -> bool:
    """Whether there may be room for the value as long as it is gone, if what waits until it comes back did not."""
    until = chosen.back[i] if chosen.back[i] >= 0 else chosen.idle[i, I_BEFORE]
    nbytes = D.V[chosen.idle[i, I_VALUE], s.BYTES] - chosen.waiting[until]
    first = chosen.idle[i, I_AFTER] + 1
    return first >= until or most(chosen.peaks, first, until) + nbytes <= budget


@kernel
def _let_leave_once(D: DryRun, chosen: Selection, i: int, budget: int, cost: int) -> int:
    """Let the value stay from when it first comes back, if that fits and is cheaper. Returns the cost as above."""
    D.decisions[i] = LEAVE_ONCE
    if dry_run(D) and D.K[D_COST] < cost and exceeds(D, budget) == 0.0:
        _note(D, chosen)
        return D.K[D_COST]
    D.decisions[i] = LEAVE
    return cost
