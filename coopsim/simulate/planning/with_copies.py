"""Plans that offload, too: what they begin with, and which of them is the cheapest."""

from collections.abc import Callable
from functools import partial

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.adjust_copies import make_room
from coopsim.simulate.planning.away import Away
from coopsim.simulate.planning.copy_prices import CopyPrices
from coopsim.simulate.planning.draft import Draft, Saved
from coopsim.simulate.planning.fitting import Begin, Remembered, begin_and_fit, keep_narrow, keep_or_cut
from coopsim.simulate.planning.request import Copying, ResidencyPlan

#: Gives decisions addresses; others, made by the function for fewer bytes, if there are none.
Complete = Callable[[Callable[[int], bool]], ResidencyPlan | None]

_EXPENSIVE = 0.25  # of the iteration's cost: where the rest costs more, ops may wait for copies


def with_copies(draft: Draft, copying: Copying, few: int, many: int, complete: Complete) -> ResidencyPlan | None:
    """The cheapest of the plans that are tried, or None. What is found at once, and costs little, is taken as it is.

    few, many: numbers of dry runs for a choice, at once and where that is not enough. complete: gives
    decisions addresses.
    """
    which = [(offloadable, _begins(draft, copying, few)) for offloadable in _which(copying)]

    def costs_little(plan: ResidencyPlan | None) -> bool:
        return plan is not None and plan.cost <= _EXPENSIVE * draft.own_cost

    def cheaper(than: ResidencyPlan | None, dry_runs: int, *, waits: bool) -> ResidencyPlan | None:
        best = than
        for offloadable, begins in which:
            draft.D.copies[:, s.OFFLOADABLE] = offloadable
            tried = [begin for begin in begins if begin.waits == waits]
            plan = _cheapest(draft, _choices(draft, tried, dry_runs), dry_runs, complete)
            if plan is not None and (best is None or plan.cost < best.cost):
                best = plan
            if costs_little(best):
                break
        return best

    at_once = cheaper(None, few, waits=False)
    if costs_little(at_once):
        return at_once
    best = cheaper(at_once, few, waits=True)
    if at_once is None:
        best = cheaper(best, many, waits=False)
    return best if best is not None else cheaper(None, many, waits=True)


def _which(copying: Copying) -> list[s.Array]:
    """What may be offloaded: first without parameters and the like, then with them, if they may be."""
    every = copying.rows[:, s.OFFLOADABLE]
    return [copying.first] if np.array_equal(copying.first, every) else [copying.first, every]


def _begins(draft: Draft, copying: Copying, few: int) -> list[Remembered]:
    """As without copies, with prices for copies, and from what is offloaded first.

    If nothing of that fits, from parameters and the like that are offloaded first, and so that ops wait for copies.
    """
    begins: list[Begin] = [
        partial(_without_copies, draft, partial(keep_or_cut, draft, with_cut=True)),
        partial(_without_copies, draft, partial(keep_or_cut, draft, with_cut=False)),
        partial(_without_copies, draft, partial(keep_narrow, draft, most=few)),
        partial(_by_prices, draft),
        partial(_offload, draft),
    ]
    rest: list[Begin] = [
        partial(_offload, draft, back_late=True),
        partial(_offload, draft, back_late=True, out_late=True),
    ]
    if copying.lasting:
        rest.insert(0, partial(_offload, draft, lasting=True))
    return [Remembered(draft, begin, waits=begin in rest) for begin in [*begins, *rest]]


def _without_copies(draft: Draft, begin: Begin, budget: int) -> float:
    """With no copy yet."""
    draft.forget_copies()
    return begin(budget)


def _by_prices(draft: Draft, budget: int) -> float:
    """With a cut, in which values are offloaded as far as the engines have time."""
    draft.forget_copies()
    draft.keep_all()
    draft.run()
    return min(CopyPrices(draft, budget, moment).decide() for moment in draft.fullest())


def _offload(draft: Draft, budget: int, **late: bool) -> float:
    """All values stay, but for what is offloaded because more would be in memory than fits (make_room)."""
    draft.forget_copies()
    draft.keep_all()
    make_room(Away(draft, budget), **late)
    return 0.0


def _choices(draft: Draft, begins: list[Remembered], most: int) -> list[tuple[int, Saved, Begin]]:
    """Decisions that fit, with what they cost and what they began with, the cheapest first."""
    found: list[tuple[int, Saved, Begin]] = [
        (draft.cost, draft.save(), begin)
        for begin in begins
        if not begin.hopeless and begin.is_made_to_fit(draft.target_bytes, most)
    ]
    return sorted(found, key=lambda one: one[0])


def _cheapest(
    draft: Draft, choices: list[tuple[int, Saved, Begin]], dry_runs: int, complete: Complete
) -> ResidencyPlan | None:
    """Of several choices, the cheapest first, the one that is cheapest once it has addresses."""
    best: ResidencyPlan | None = None
    for cost, decisions, begin in choices:
        if best is None or cost < best.cost:
            draft.restore(decisions)
            plan = complete(begin_and_fit(draft, begin, dry_runs))
            if plan is not None and (best is None or plan.cost < best.cost):
                best = plan
    return best
