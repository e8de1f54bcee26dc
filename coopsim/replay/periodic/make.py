"""Make a plan for a step that has been seen once."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coopsim.kernel.state import DECIDE, Array
from coopsim.replay.periodic.cut import Cut, decide_at, new_cut
from coopsim.replay.periodic.place import place
from coopsim.replay.periodic.prune import prune
from coopsim.replay.periodic.rehearse import (
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
from coopsim.replay.periodic.select import Selection, keep_all, select, selection
from coopsim.replay.program import NEVER, Program

_TRIES = 8
_GIVEN_AWAY = 0.001  # of the budget, if addresses are not found within it; twice as much the next time
_CLOSE = 0.0025  # of the step's cost: nearer to the least, another choice is not tried
_REHEARSALS = (500, 5_000)  # at most, for one choice; more where neither was enough, as nearly nothing fits there


@dataclass(frozen=True)
class Plan:
    """Decisions for all gaps, and for each request of the step, in order, its value and address."""

    gaps: Any
    until: Array
    requests: Array
    cost: int  # decision cost of the recomputations of a step
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them


def make(program: Program, budget: int, fixed: Array, *, in_place: bool) -> Plan | None:
    """A plan that fits into `budget` bytes with what is there at the start at the addresses `fixed`, or None."""
    R, S, C = rehearsal(program, in_place=in_place), selection(program), new_cut(program)
    target = peak = budget
    for most in _REHEARSALS:
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

    From what is cheapest at the moment at which most would be resident. If what the rest of the step then asks for
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
    """All values stay; with a cut, but for what is cheapest where they take most. The least that then can be."""
    keep_all(R)
    rehearse(R)
    return decide_at(R, C, int(R.peak.argmax()), budget) if with_cut else 0.0


def _make_fit(R: Rehearsal, S: Selection, budget: int, most: int) -> bool:
    """Drop values until the step fits, take back what is not needed, rehearse. False: not with that many rehearsals."""
    if select(R, S, budget, int(R.K[R_COUNT]) + most) > 0:
        return False
    prune(R, S, budget)
    rehearse(R)
    return True
