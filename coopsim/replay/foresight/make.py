"""Make a plan for an iteration of the trace, of one step or of several, that is known beforehand."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.replay.foresight import segments
from coopsim.replay.foresight.away import Away, Taken, forget, restore, taken
from coopsim.replay.foresight.copy_prices import CopyPrices
from coopsim.replay.foresight.cut import decide_at
from coopsim.replay.foresight.cut_graph import Cut, new_cut
from coopsim.replay.foresight.dry_run import dry_run
from coopsim.replay.foresight.dry_run_state import (
    D_AWAYS,
    D_COST,
    D_COUNT,
    D_RESIDENCIES,
    NEED,
    Q_BYTES,
    Q_COLUMNS,
    Q_UNTIL,
    Q_VALUE,
    Copying,
    DryRun,
    new_dry_run,
)
from coopsim.replay.foresight.least import least_bytes
from coopsim.replay.foresight.make_room import make_room
from coopsim.replay.foresight.place import place
from coopsim.replay.foresight.prefetch import prefetch
from coopsim.replay.foresight.prune import prune
from coopsim.replay.foresight.remembered import Begin, Remembered
from coopsim.replay.foresight.select import select
from coopsim.replay.foresight.selection import I_OPEN, Selection, exceeds, is_open, keep_all, selection
from coopsim.replay.foresight.take_back import take_back
from coopsim.replay.lower import NEVER, Program

_TRIES = 8
_GIVEN_AWAY = 0.001  # of the budget, if addresses are not found within it; twice as much the next time
_CLOSE = 0.0025  # of the iteration's cost: nearer to the least, another choice is not tried
_EXPENSIVE = 0.25  # of the iteration's cost: where the rest costs more, ops may wait for copies
_SEGMENTED = 4  # numbers of segments that are made to fit
_DRY_RUNS = (500, 5_000)  # at most, for a choice, a step; more where neither was enough, as nearly nothing fits there


@dataclass(frozen=True)
class Plan:
    """Decisions for all idle intervals, and for each request of the iteration, in order, its value and address."""

    decisions: Any
    until: s.Array
    requests: s.Array
    away: s.Array  # its copies, in order (kernel/state.py)
    cost: int  # decision cost of the recomputations of the iteration
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them


def make(
    program: Program,
    budget: int,
    placed: s.Array,
    *,
    first_run: bool = False,
    most: int | None = None,
    segmented: bool = False,
    copying: Copying | None = None,
) -> Plan | None:
    """A plan that fits into `budget` bytes with what is there at the start at the addresses `placed`, or None.

    first_run: only an op's first run is in place. most: bytes that it may have in memory at once, if fewer than the
    budget. segmented: in the shape of checkpointing. copying: it may offload, too.
    """
    D = new_dry_run(program, first_run=first_run, copying=copying)
    if least_bytes(program, copying) > (budget if most is None else most):
        return None
    chosen, graph = selection(program, copying), new_cut(program)
    target = budget if most is None else most
    choose = _choose_segments if segmented else _choose
    efforts = [n * len(program.step_cost) for n in _DRY_RUNS]
    if copying is not None:
        which = [(v, _begins_with_copies(D, chosen, graph, copying)) for v in _which(copying)]
        return _with_copies(D, chosen, which, target, budget, placed, efforts)
    for dry_runs in efforts:
        begin = choose(D, chosen, graph, target, dry_runs)
        if begin is not None:
            return _placed(D, chosen, begin, target, budget, placed, dry_runs)
    return None


def _with_copies(
    D: DryRun,
    chosen: Selection,
    which: list[tuple[s.Array, list[Remembered]]],
    target: int,
    budget: int,
    placed: s.Array,
    efforts: list[int],
) -> Plan | None:
    """The cheapest of the plans that are tried, or None. What is found at once, and costs little, is taken as it is.

    which: what may be offloaded, and what to begin with.
    """
    few, many = efforts

    def cheaper(than: Plan | None, dry_runs: int, *, waits: bool) -> Plan | None:
        best = than
        for offloadable, begins in which:
            D.copies[:, s.OFFLOADABLE] = offloadable
            tried = [begin for begin in begins if begin.waits == waits]
            choices = _choices_with_copies(D, chosen, tried, target, dry_runs)
            plan = _cheapest(D, chosen, choices, target, budget, placed, dry_runs)
            if plan is not None and (best is None or plan.cost < best.cost):
                best = plan
            if best is not None and best.cost <= _EXPENSIVE * D.O[:, s.DECIDE].sum():
                break
        return best

    at_once = cheaper(None, few, waits=False)
    if at_once is not None and at_once.cost <= _EXPENSIVE * D.O[:, s.DECIDE].sum():
        return at_once
    best = cheaper(at_once, few, waits=True)
    if at_once is None:
        best = cheaper(best, many, waits=False)
    return best if best is not None else cheaper(None, many, waits=True)


def _which(copying: Copying) -> list[s.Array]:
    """What may be offloaded: first without parameters and the like, then with them, if they may be."""
    every = copying.rows[:, s.OFFLOADABLE]
    return [copying.first] if np.array_equal(copying.first, every) else [copying.first, every]


def _placed(
    D: DryRun, chosen: Selection, begin: Begin, target: int, budget: int, placed: s.Array, dry_runs: int
) -> Plan | None:
    """The decisions with addresses; others for fewer bytes, from what `begin` begins with, if none are found."""
    peak = target
    for k in range(_TRIES):
        if k > 0:
            target = min(target, peak) - max(int(_GIVEN_AWAY * budget), 1) * 2 ** (k - 1)
            if begin(target) < 0 or not _make_fit(D, chosen, target, dry_runs):
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
            return Plan(D.decisions.copy(), exact.until, requests, away, int(exact.K[D_COST]), peak, height)
    return None


def _cheapest(
    D: DryRun,
    chosen: Selection,
    choices: list[tuple[int, Taken, Begin]],
    target: int,
    budget: int,
    placed: s.Array,
    dry_runs: int,
) -> Plan | None:
    """Of several choices, the cheapest first, the one that is cheapest once it has addresses."""
    best: Plan | None = None
    for cost, decisions, begin in choices:
        if best is None or cost < best.cost:
            restore(D, chosen, decisions)
            plan = _placed(D, chosen, begin, target, budget, placed, dry_runs)
            if plan is not None and (best is None or plan.cost < best.cost):
                best = plan
    return best


def _choose(D: DryRun, chosen: Selection, graph: Cut, budget: int, most: int) -> Begin | None:
    """Decisions that fit into the budget, and their dry run. What they began with; None if none are found.

    From what is cheapest at the moments at which most would be resident. If what the rest of the steps then asks for
    takes the cost away from the least that there can be, the same is done from scratch, and the cheaper counts.
    """
    with_cut, without = (partial(_begin, D, graph, with_cut=cut) for cut in (True, False))
    least = with_cut(budget)
    if least < 0:
        return None
    fits = _make_fit(D, chosen, budget, most)
    if fits and D.K[D_COST] - least <= _CLOSE * D.O[:, s.DECIDE].sum():
        return with_cut
    decisions, cost = D.decisions.copy(), D.K[D_COST]
    without(budget)
    if _make_fit(D, chosen, budget, most) and not (fits and cost <= D.K[D_COST]):
        return without
    D.decisions[:] = decisions
    dry_run(D)
    return with_cut if fits else None


def _begins_with_copies(D: DryRun, chosen: Selection, graph: Cut, copying: Copying) -> list[Remembered]:
    """As in _choose, with prices for copies, and from what is offloaded first.

    If nothing of that fits, from parameters and the like that are offloaded first, and so that ops wait for copies.
    """
    begins: list[Begin] = [
        partial(_begin_with_copies, D, chosen, partial(_begin, D, graph, with_cut=True)),
        partial(_begin_with_copies, D, chosen, partial(_begin, D, graph, with_cut=False)),
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
        if _make_fit(D, chosen, budget, most):
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
    return min(CopyPrices(D, chosen, graph, budget, moment).decide() for moment in _fullest(D))


def _begin_offload(D: DryRun, chosen: Selection, budget: int, **late: bool) -> float:
    """All values stay, but for what is offloaded because more would be in memory than fits (make_room.py)."""
    _forget_copies(D, chosen)
    keep_all(D)
    make_room(Away(D, chosen, budget), **late)
    return 0.0


def _forget_copies(D: DryRun, chosen: Selection) -> None:
    forget(D, chosen)
    chosen.idle[:, I_OPEN] = is_open(D.V, chosen.idle)


def _choose_segments(D: DryRun, chosen: Selection, _graph: Cut, budget: int, most: int) -> Begin | None:
    """Like _choose, from the numbers of segments that cost least or, where none fits, exceed the budget least."""
    tried: list[tuple[float, int, Begin]] = []
    for count, linger in product(segments.COUNTS, (True, False)):
        begin: Begin = partial(_begin_segments, D, count=count, linger=linger)
        if begin(budget) >= 0:
            tried.append((exceeds(D, budget), int(D.K[D_COST]), begin))
    best: tuple[int, Any, Begin] | None = None
    for _, _, begin in sorted(tried, key=lambda one: one[:2])[:_SEGMENTED]:
        begin(budget)
        if _make_fit(D, chosen, budget, most) and (best is None or D.K[D_COST] < best[0]):
            best = int(D.K[D_COST]), D.decisions.copy(), begin
    if best is None:
        return None
    D.decisions[:] = best[1]
    dry_run(D)
    return best[2]


def _begin_segments(D: DryRun, _budget: int, *, count: int, linger: bool) -> float:
    """All values stay but for those inside so many segments, where each step takes most. Negative: lost."""
    keep_all(D)
    dry_run(D)
    for turn in _fullest(D):
        segments.decide(D, turn, segments.narrow_places(D, turn, count), linger=linger)
    return 0.0 if dry_run(D) else -1.0


def _begin(D: DryRun, graph: Cut, budget: int, *, with_cut: bool) -> float:
    """All values stay; with a cut, but for what is cheapest where each step takes most. The least that then can be.

    Negative if nothing fits. It is the sum over the steps: no bound where a step needs what one before it has made.
    """
    keep_all(D)
    dry_run(D)
    if not with_cut:
        return 0.0
    least = [decide_at(D, graph, moment, budget) for moment in _fullest(D)]
    return sum(least) if min(least) >= 0 else min(least)


def _fullest(D: DryRun) -> list[int]:
    """Of each step, the op during which most bytes are in memory."""
    ops_so_far = (D.E[:, s.KIND] == s.RUN).cumsum()
    first_of_next = ops_so_far[D.E[:, s.KIND] == s.END_STEP].tolist()
    return [a + int(D.peak[a:b].argmax()) for a, b in pairwise([0, *first_of_next])]


def _make_fit(D: DryRun, chosen: Selection, budget: int, most: int) -> bool:
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
