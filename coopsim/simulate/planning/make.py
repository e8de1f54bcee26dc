"""Make a plan for an iteration of the trace, of one step or of several, that is known beforehand."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from coopsim.simulate.planning import segments
from coopsim.simulate.planning.at_once import LONG
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.fitting import Begin, begin_and_fit, keep_narrow, keep_or_cut, make_fit, with_addresses
from coopsim.simulate.planning.program import Program
from coopsim.simulate.planning.request import IterationStart, PlanRequest, ResidencyPlan
from coopsim.simulate.planning.selection import least_bytes
from coopsim.simulate.planning.stretches import Stretches
from coopsim.simulate.planning.with_copies import with_copies

_CLOSE = 0.0025  # of the iteration's cost: nearer to the least, another choice is not tried
_FEW_TIMES = 1.1  # that ops run again, by cost, in a plan without chains of them
_SEGMENTED = 4  # numbers of segments that are made to fit
_DRY_RUNS = (500, 5_000)  # at most, for a choice, a step; more where neither was enough, as nearly nothing fits there
_DRY_RUNS_LONG = 1_500  # of a long step


def make(request: PlanRequest, start: IterationStart) -> ResidencyPlan | None:
    """A plan for an iteration that begins so; None if none is found that fits."""
    if least_bytes(request.program, start.copying) > request.target_bytes:
        return None
    draft = Draft(request.program, request.target_bytes, start.copying, first_run=request.in_place_once)
    complete = partial(with_addresses, draft, request, start.placed)
    if start.copying is not None:
        return with_copies(draft, start.copying, *_limits(request.program), complete)
    if not request.segmented:
        stretches = Stretches(draft, partial(_decisions, first_run=request.in_place_once))
        if stretches.are_several():
            return complete(stretches.decide) if stretches.decide(draft.target_bytes) else None
    found = _chosen(draft, _choose_segments if request.segmented else _choose)
    if found is None:
        return None
    if _is_long(request.program):
        return complete(partial(make_fit, draft, most=found[1]))  # from the decisions that there are
    return complete(begin_and_fit(draft, *found))


def _is_long(program: Program) -> bool:
    return len(program.ops) > LONG


def _limits(program: Program) -> tuple[int, int]:
    if _is_long(program):
        return _DRY_RUNS_LONG, _DRY_RUNS_LONG
    return _DRY_RUNS[0] * len(program.step_cost), _DRY_RUNS[1] * len(program.step_cost)


def _chosen(draft: Draft, choose: Callable[[Draft, int, int], Begin | None]) -> tuple[Begin, int] | None:
    """What decisions that fit begin with, which the draft then has, and how many dry runs were enough for them."""
    for most in sorted(set(_limits(draft.program))):
        begin = choose(draft, draft.target_bytes, most)
        if begin is not None:
            return begin, most
    return None


def _decisions(program: Program, budget: int, *, first_run: bool) -> Any:
    """For a program in so many bytes; None if none are found."""
    draft = Draft(program, budget, first_run=first_run)
    return draft.D.decisions if _chosen(draft, _choose) else None


def _choose(draft: Draft, budget: int, most: int) -> Begin | None:
    """Decisions that fit into the budget, and their dry run. What they began with; None if none are found.

    From what is cheapest at the moments at which most would be resident (not of a long step, with better estimates:
    returns.py), from scratch, and with what is narrow kept. The cheapest counts. The next is tried only if the cost is
    away from the least that there can be, the last only if ops run again in chains, or no number of dry runs is enough.
    """
    few, many = _limits(draft.program)
    with_cut, without = (partial(keep_or_cut, draft, with_cut=cut) for cut in (True, False))
    narrow = [partial(keep_narrow, draft, most=n) for n in sorted({few, many})]
    best: tuple[int, Any, Begin] | None = None
    for begin in (without, *narrow) if _is_long(draft.program) else (with_cut, without, *narrow):
        if begin in narrow:
            if best is not None:
                draft.set_decisions(best[1])
            if draft.times_again() <= _FEW_TIMES if best is not None else most < many:
                break
        least = begin(budget)
        if least < 0:
            break
        if make_fit(draft, budget, most) and (best is None or draft.cost < best[0]):
            best = draft.cost, draft.D.decisions.copy(), begin
            if draft.cost - least <= _CLOSE * draft.own_cost:
                break
    if best is None:
        return None
    draft.set_decisions(best[1])
    return best[2]


def _choose_segments(draft: Draft, budget: int, most: int) -> Begin | None:
    """Like _choose, from the numbers of segments that cost least or, where none fits, exceed the budget least."""
    tried: list[tuple[float, int, Begin]] = []
    for count, linger in product(segments.COUNTS, (True, False)):
        begin: Begin = partial(_begin_segments, draft, count=count, linger=linger)
        if begin(budget) >= 0:
            tried.append((draft.exceeds(budget), draft.cost, begin))
    best: tuple[int, Any, Begin] | None = None
    for _, _, begin in sorted(tried, key=lambda one: one[:2])[:_SEGMENTED]:
        begin(budget)
        if make_fit(draft, budget, most) and (best is None or draft.cost < best[0]):
            best = draft.cost, draft.D.decisions.copy(), begin
    if best is None:
        return None
    draft.set_decisions(best[1])
    return best[2]


def _begin_segments(draft: Draft, _budget: int, *, count: int, linger: bool) -> float:
    """All values stay but for those inside so many segments, where each step takes most. Negative: lost."""
    draft.keep_all()
    draft.run()
    for turn in draft.fullest():
        segments.decide(draft.D, turn, segments.narrow_places(draft.D, turn, count), linger=linger)
    return 0.0 if draft.run() else -1.0
