"""Makes a draft fit: what its decisions begin with, how they are changed until all steps fit, and the addresses."""

from collections.abc import Callable

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.adjust_copies import prefetch, take_back
from coopsim.simulate.planning.away import Away
from coopsim.simulate.planning.cut import decide_at
from coopsim.simulate.planning.draft import Draft, Saved
from coopsim.simulate.planning.dry_run_state import D_COST, Q_BYTES, Q_LEFT, Q_VALUE, T_AWAYS
from coopsim.simulate.planning.place import next_below, place
from coopsim.simulate.planning.prune import prune
from coopsim.simulate.planning.request import PlanRequest, ResidencyPlan
from coopsim.simulate.planning.select import select
from coopsim.simulate.planning.selection import I_OPEN, I_VALUE, is_narrow, is_open

#: Gives the draft decisions to begin with in a budget, and returns a lower bound of the cost; negative: nothing fits.
Begin = Callable[[int], float]

_TRIES = 8
_GIVEN_AWAY = 0.001  # of the budget, if addresses are not found within it; twice as much the next time


class Remembered:
    """A begin that keeps its decisions for the latest budget, and knows whether it is hopeless.

    waits: ops may wait for its copies.
    """

    def __init__(self, draft: Draft, begin: Begin, *, waits: bool) -> None:
        self._draft, self._begin, self.waits = draft, begin, waits
        self._known: tuple[int, float, Saved] | None = None
        self.hopeless = False  # nothing fits from it, however many dry runs there are

    def __call__(self, budget: int) -> float:
        if self._known is not None and self._known[0] == budget:
            self._draft.restore(self._known[2])
            return self._known[1]
        least = self._begin(budget)
        self._known = budget, least, self._draft.save()
        return least

    def is_made_to_fit(self, budget: int, most: int) -> bool:
        """Whether decisions that fit are found from it, with `most` dry runs; then the draft has them."""
        if self(budget) < 0:
            self.hopeless = True
            return False
        began = self._draft.dry_runs
        if make_fit(self._draft, budget, most):
            return True
        self.hopeless = self._draft.dry_runs - began < most
        return False


def keep_or_cut(draft: Draft, budget: int, *, with_cut: bool) -> float:
    """A begin: all values stay; with a cut, but for what is cheapest to be without where each step takes most.

    Its bound is the sum over the steps, and is none where a step needs what one before it has made.
    """
    draft.keep_all()
    draft.run()
    if not with_cut:
        return 0.0
    least = [decide_at(draft.D, draft.graph, moment, budget) for moment in draft.fullest()]
    return sum(least) if min(least) >= 0 else min(least)


def keep_narrow(draft: Draft, budget: int, *, most: int) -> float:
    """A begin: only what is wider than what it is made from leaves, up to the budget if that is enough.

    What is cheap to make from something wide looks cheap to be without; but that has to stay for it, or come back.
    """
    draft.keep_all()
    draft.run()
    idle = draft.chosen.idle
    idle[:, I_OPEN] &= ~is_narrow(draft.program)[idle[:, I_VALUE]]
    select(draft.D, draft.chosen, budget, draft.dry_runs + most)
    idle[:, I_OPEN] = is_open(draft.D.V, idle)
    return 0.0 if draft.run() else -1.0


def begin_and_fit(draft: Draft, begin: Begin, most: int) -> Callable[[int], bool]:
    """Makes decisions that fit into a budget from what `begin` begins with, in at most so many dry runs, if it can."""
    return lambda budget: begin(budget) >= 0 and make_fit(draft, budget, most)


def make_fit(draft: Draft, budget: int, most: int) -> bool:
    """Drop values until all steps fit, take back what is not needed, and dry-run. False: not with `most` dry runs."""
    if select(draft.D, draft.chosen, budget, draft.dry_runs + most) > 0:
        return False
    prune(draft.D, draft.chosen, budget)
    if draft.copying is not None:
        prefetch(draft, budget)
        away = Away(draft, budget)
        away.replace()
        take_back(away)
    draft.run()
    return True


def with_addresses(
    draft: Draft, request: PlanRequest, placed: s.Array, decide: Callable[[int], bool]
) -> ResidencyPlan | None:
    """The decisions with addresses, around those `placed`; if none are found, others that `decide` for fewer bytes."""
    D, budget, n = draft.D, request.memory_bytes, len(placed)
    lasting = (D.V[:, s.EVICTABLE] == 0) & (draft.program.storage >= 0)
    peak = target = draft.target_bytes
    for k in range(_TRIES):
        if k > 0:
            target = min(target, peak) - max(int(_GIVEN_AWAY * budget), 1) * 2 ** (k - 1)
            if not decide(target):
                return None
        exact, residencies = draft.residencies()
        peak = int(exact.peak.max(initial=0))
        at = place(residencies, lasting[residencies[:, Q_VALUE]], placed, budget)
        if at is not None:
            requests = np.stack([residencies[n:, Q_VALUE], at[n:]], axis=1)
            height = int((at + residencies[:, Q_BYTES]).max(initial=0))
            away = D.away[: D.T[T_AWAYS]].copy()
            cost, below = int(exact.K[D_COST]), next_below(residencies[:, Q_LEFT], at)[n:]
            return ResidencyPlan(D.decisions.copy(), exact.until, requests, below, away, cost, peak, height)
    return None
