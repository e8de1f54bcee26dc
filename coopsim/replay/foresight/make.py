"""Make a plan for a round of the trace, of one step or of several, that is known beforehand."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from coopsim.kernel.state import DECIDE, END_STEP, KIND, RUN, Array
from coopsim.replay.foresight.cut import Cut, decide_at, new_cut
from coopsim.replay.foresight.dry_run import (
    NEED,
    Q_BYTES,
    Q_COLUMNS,
    Q_UNTIL,
    Q_VALUE,
    R_COST,
    R_COUNT,
    R_STAYS,
    Rehearsal,
    rehearsal,
    rehearse,
)
from coopsim.replay.foresight.place import place
from coopsim.replay.foresight.prune import prune
from coopsim.replay.foresight.select import Selection, keep_all, select, selection
from coopsim.replay.lower import NEVER, Program

_TRIES = 8
_GIVEN_AWAY = 0.001  # of the budget, if addresses are not found within it; twice as much the next time
_CLOSE = 0.0025  # of the round's cost: nearer to the least, another choice is not tried
_REHEARSALS = (500, 5_000)  # at most, for a choice, a step; more where neither was enough, as nearly nothing fits there


@dataclass(frozen=True)
class Plan:
    """Decisions for all gaps, and for each request of the round, in order, its value and address."""

    gaps: Any
    until: Array
    requests: Array
    cost: int  # decision cost of the recomputations of the round
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them


def make(program: Program, budget: int, fixed: Array, *, in_place: bool) -> Plan | None:
    """A plan that fits into `budget` bytes with what is there at the start at the addresses `fixed`, or None."""
    R, S, C = rehearsal(program, in_place=in_place), selection(program), new_cut(program)
    target = peak = budget
    for most in (n * len(program.step_cost) for n in _REHEARSALS):
        with_cut = _choose(R, S, C, target, most)
        if with_cut is not None:
            break
    else:
        return None
    for k in range(_TRIES):
        if k > 0:
            target = min(target, peak) - max(int(_GIVEN_AWAY * budget), 1) * 2 ** (k - 1)
            if _begin(R, C, target, with_cut=with_cut) < 0 or not _make_fit(R, S, target, most):
                return None
        exact = replace(R, until=R.X[:, NEED].copy())
        rehearse(exact)
        peak = int(exact.peak.max(initial=0))
        logged = replace(exact, Q=np.zeros((int(R.K[R_STAYS]), Q_COLUMNS), np.int64))
        rehearse(logged)
        stays = logged.Q
        stays[stays[:, Q_UNTIL] < 0, Q_UNTIL] = NEVER
        at = place(stays, fixed, budget)
        if at is not None:
            n = len(fixed)
            requests = np.stack([stays[n:, Q_VALUE], at[n:]], axis=1)
            height = int((at + stays[:, Q_BYTES]).max(initial=0))
            return Plan(R.gaps, exact.until, requests, int(exact.K[R_COST]), peak, height)
    return None


def _choose(R: Rehearsal, S: Selection, C: Cut, budget: int, most: int) -> bool | None:
    """Decisions that fit into the budget, rehearsed. Whether they began with a cut; None if none are found.

    From what is cheapest at the moments at which most would be resident. If what the rest of the steps then asks for
    takes the cost away from the least that there can be, the same is done from scratch, and the cheaper counts.
    """
    least = _begin(R, C, budget, with_cut=True)
    if least < 0:
        return None
    fits = _make_fit(R, S, budget, most)
    if fits and R.K[R_COST] - least <= _CLOSE * R.O[:, DECIDE].sum():
        return True
    gaps, cost = R.gaps.copy(), R.K[R_COST]
    _begin(R, C, budget, with_cut=False)
    if _make_fit(R, S, budget, most) and not (fits and cost <= R.K[R_COST]):
        return False
    R.gaps[:] = gaps
    rehearse(R)
    return True if fits else None


def _begin(R: Rehearsal, C: Cut, budget: int, *, with_cut: bool) -> float:
    """All values stay; with a cut, but for what is cheapest where each step takes most. The least that then can be.

    Negative if nothing fits. It is the sum over the steps: no bound where a step needs what one before it has made.
    """
    keep_all(R)
    rehearse(R)
    if not with_cut:
        return 0.0
    least = [decide_at(R, C, moment, budget) for moment in _fullest(R)]
    return sum(least) if min(least) >= 0 else min(least)


def _fullest(R: Rehearsal) -> list[int]:
    """Of each step, the op during which most bytes are in memory."""
    ops_so_far = (R.E[:, KIND] == RUN).cumsum()
    first_of_next = ops_so_far[R.E[:, KIND] == END_STEP].tolist()
    return [a + int(R.peak[a:b].argmax()) for a, b in pairwise([0, *first_of_next])]


def _make_fit(R: Rehearsal, S: Selection, budget: int, most: int) -> bool:
    """Drop values until all steps fit, take back what is not needed, rehearse. False: not with that many rehearsals."""
    if select(R, S, budget, int(R.K[R_COUNT]) + most) > 0:
        return False
    prune(R, S, budget)
    rehearse(R)
    return True
