"""Plans that offload, too: what they begin with, and which of them is the cheapest."""

from functools import partial

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.adjust_copies import make_room
from coopsim.planning.away import Away, Taken, forget, restore, taken
from coopsim.planning.copy_prices import CopyPrices
from coopsim.planning.cut_graph import Cut
from coopsim.planning.dry_run import dry_run
from coopsim.planning.dry_run_state import D_COST, D_COUNT, DryRun
from coopsim.planning.made import Begin, Remembered, fullest, keep_or_cut, make_fit, with_addresses
from coopsim.planning.request import Copying, ResidencyPlan
from coopsim.planning.selection import I_OPEN, Selection, is_open, keep_all

_EXPENSIVE = 0.25  # of the iteration's cost: where the rest costs more, ops may wait for copies


def with_copies(
    D: DryRun,
    chosen: Selection,
    graph: Cut,
    copying: Copying,
    target: int,
    budget: int,
    placed: s.Array,
    efforts: tuple[int, int],
) -> ResidencyPlan | None:
    """The cheapest of the plans that are tried, or None. What is found at once, and costs little, is taken as it is.

    efforts: numbers of dry runs for a choice, at once and where that is not enough. Other arguments as of make.make.
    """
    few, many = efforts
    which = [(offloadable, _begins_with_copies(D, chosen, graph, copying)) for offloadable in _which(copying)]

    def costs_little(plan: ResidencyPlan | None) -> bool:
        return plan is not None and plan.cost <= _EXPENSIVE * D.O[:, s.DECIDE].sum()

    def cheaper(than: ResidencyPlan | None, dry_runs: int, *, waits: bool) -> ResidencyPlan | None:
        best = than
        for offloadable, begins in which:
            D.copies[:, s.OFFLOADABLE] = offloadable
            tried = [begin for begin in begins if begin.waits == waits]
            choices = _choices_with_copies(D, chosen, tried, target, dry_runs)
            plan = _cheapest(D, chosen, choices, target, budget, placed, dry_runs)
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


def _cheapest(
    D: DryRun,
    chosen: Selection,
    choices: list[tuple[int, Taken, Begin]],
    target: int,
    budget: int,
    placed: s.Array,
    dry_runs: int,
) -> ResidencyPlan | None:
    """Of several choices, the cheapest first, the one that is cheapest once it has addresses."""
    best: ResidencyPlan | None = None
    for cost, decisions, begin in choices:
        if best is None or cost < best.cost:
            restore(D, chosen, decisions)
            plan = with_addresses(D, chosen, begin, target, budget, placed, dry_runs)
            if plan is not None and (best is None or plan.cost < best.cost):
                best = plan
    return best


def _begins_with_copies(D: DryRun, chosen: Selection, graph: Cut, copying: Copying) -> list[Remembered]:
    """As in _choose, with prices for copies, and from what is offloaded first.

    If nothing of that fits, from parameters and the like that are offloaded first, and so that ops wait for copies.
    """
    begins: list[Begin] = [
        partial(_begin_with_copies, D, chosen, partial(keep_or_cut, D, graph, with_cut=True)),
        partial(_begin_with_copies, D, chosen, partial(keep_or_cut, D, graph, with_cut=False)),
        partial(_begin_with_copy_prices, D, chosen, graph),
        partial(_begin_offload, D, chosen),
    ]
    rest: list[Begin] = [
        partial(_begin_offload, D, chosen, back_late=True),
        partial(_begin_offload, D, chosen, back_late=True, out_late=True),
    ]
    if copying.lasting:
        rest.insert(0, partial(_begin_offload, D, chosen, lasting=True))
    return [Remembered(D, chosen, begin, waits=begin in rest) for begin in [*begins, *rest]]


def _choices_with_copies(
    D: DryRun, chosen: Selection, begins: list[Remembered], budget: int, most: int
) -> list[tuple[int, Taken, Begin]]:
    """Decisions that fit, with what they cost and what they began with, the cheapest first."""
    found: list[tuple[int, Taken, Begin]] = []
    for begin in begins:
        if begin.hopeless:
            continue
        if begin(budget) < 0:
            begin.hopeless = True
            continue
        began = int(D.K[D_COUNT])
        if make_fit(D, chosen, budget, most):
            found.append((int(D.K[D_COST]), taken(D, chosen), begin))
        else:
            begin.hopeless = D.K[D_COUNT] - began < most
    return sorted(found, key=lambda one: one[0])


def _begin_with_copies(D: DryRun, chosen: Selection, begin: Begin, budget: int) -> float:
    """As `begin`, with no copy yet."""
    _forget_copies(D, chosen)
    return begin(budget)


def _begin_with_copy_prices(D: DryRun, chosen: Selection, graph: Cut, budget: int) -> float:
    """As _begin with a cut, in which values are offloaded as far as the engines have time."""
    _forget_copies(D, chosen)
    keep_all(D)
    dry_run(D)
    return min(CopyPrices(D, chosen, graph, budget, moment).decide() for moment in fullest(D))


def _begin_offload(D: DryRun, chosen: Selection, budget: int, **late: bool) -> float:
    """All values stay, but for what is offloaded because more would be in memory than fits (make_room)."""
    _forget_copies(D, chosen)
    keep_all(D)
    make_room(Away(D, chosen, budget), **late)
    return 0.0


def _forget_copies(D: DryRun, chosen: Selection) -> None:
    forget(D, chosen)
    chosen.idle[:, I_OPEN] = is_open(D.V, chosen.idle)
