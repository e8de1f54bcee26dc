"""What plans are made of: what to begin with, how it is made to fit, and the addresses of what it asks for."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.adjust_copies import prefetch, take_back
from coopsim.planning.away import Away, Taken, restore, taken
from coopsim.planning.cut import decide_at
from coopsim.planning.cut_graph import Cut
from coopsim.planning.dry_run import dry_run
from coopsim.planning.dry_run_state import (
    D_AWAYS,
    D_COST,
    D_COUNT,
    D_RESIDENCIES,
    NEED,
    Q_BYTES,
    Q_COLUMNS,
    Q_UNTIL,
    Q_VALUE,
    DryRun,
)
from coopsim.planning.place import place
from coopsim.planning.program import NEVER
from coopsim.planning.prune import prune
from coopsim.planning.request import ResidencyPlan
from coopsim.planning.select import select
from coopsim.planning.selection import Selection, keep_all

Begin = Callable[[int], float]  # decisions to begin with in a budget; the least that then can be, negative: none


class Remembered:
    """A begin that is asked for the same budget again, and is then not made again; and whether it is hopeless.

    waits: ops may wait for its copies.
    """

    def __init__(self, D: DryRun, chosen: Selection, begin: Begin, *, waits: bool) -> None:
        self.D, self.chosen, self.begin, self.waits = D, chosen, begin, waits
        self.known: tuple[int, float, Taken] | None = None
        self.hopeless = False  # nothing fits from it, however many dry runs there are

    def __call__(self, budget: int) -> float:
        if self.known is not None and self.known[0] == budget:
            restore(self.D, self.chosen, self.known[2])
            return self.known[1]
        least = self.begin(budget)
        self.known = budget, least, taken(self.D, self.chosen)
        return least


_TRIES = 8
_GIVEN_AWAY = 0.001  # of the budget, if addresses are not found within it; twice as much the next time


def keep_or_cut(D: DryRun, graph: Cut, budget: int, *, with_cut: bool) -> float:
    """All values stay; with a cut, but for what is cheapest where each step takes most. The least that then can be.

    Negative if nothing fits. It is the sum over the steps: no bound where a step needs what one before it has made.
    """
    keep_all(D)
    dry_run(D)
    if not with_cut:
        return 0.0
    least = [decide_at(D, graph, moment, budget) for moment in fullest(D)]
    return sum(least) if min(least) >= 0 else min(least)


def fullest(D: DryRun) -> list[int]:
    """Of each step, the op during which most bytes are in memory."""
    ops_so_far = (D.E[:, s.KIND] == s.RUN).cumsum()
    first_of_next = ops_so_far[D.E[:, s.KIND] == s.END_STEP].tolist()
    return [a + int(D.peak[a:b].argmax()) for a, b in pairwise([0, *first_of_next])]


def make_fit(D: DryRun, chosen: Selection, budget: int, most: int) -> bool:
    """Drop values until all steps fit, take back what is not needed, and dry-run. False: not with `most` dry runs."""
    if select(D, chosen, budget, int(D.K[D_COUNT]) + most) > 0:
        return False
    prune(D, chosen, budget)
    if len(D.copies):
        prefetch(D, chosen, budget)
        away = Away(D, chosen, budget)
        away.replace()
        take_back(away)
    dry_run(D)
    return True


def with_addresses(
    D: DryRun, chosen: Selection, begin: Begin, target: int, budget: int, placed: s.Array, dry_runs: int
) -> ResidencyPlan | None:
    """The decisions with addresses; others for fewer bytes, from what `begin` begins with, if none are found.

    placed: addresses of what is there at the start.
    """
    peak = target
    for k in range(_TRIES):
        if k > 0:
            target = min(target, peak) - max(int(_GIVEN_AWAY * budget), 1) * 2 ** (k - 1)
            if begin(target) < 0 or not make_fit(D, chosen, target, dry_runs):
                return None
        exact = replace(D, until=D.X[:, NEED].copy())
        dry_run(exact)
        peak = int(exact.peak.max(initial=0))
        logged = replace(exact, Q=np.zeros((int(D.K[D_RESIDENCIES]), Q_COLUMNS), np.int64))
        dry_run(logged)
        residencies = logged.Q
        residencies[residencies[:, Q_UNTIL] < 0, Q_UNTIL] = NEVER
        at = place(residencies, placed, budget)
        if at is not None:
            n = len(placed)
            requests = np.stack([residencies[n:, Q_VALUE], at[n:]], axis=1)
            height = int((at + residencies[:, Q_BYTES]).max(initial=0))
            away = D.away[: D.K[D_AWAYS]].copy()
            return ResidencyPlan(D.decisions.copy(), exact.until, requests, away, int(exact.K[D_COST]), peak, height)
    return None
