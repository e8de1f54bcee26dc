"""Make a plan for an iteration of the trace, of one step or of several, that is known beforehand."""

from functools import partial
from itertools import product
from typing import Any

from coopsim.kernel import state as s
from coopsim.planning import segments
from coopsim.planning.cut_graph import Cut, new_cut
from coopsim.planning.dry_run import dry_run
from coopsim.planning.dry_run_state import D_COST, DryRun, new_dry_run
from coopsim.planning.made import Begin, fullest, keep_or_cut, make_fit, with_addresses
from coopsim.planning.request import Request, ResidencyPlan, Start
from coopsim.planning.selection import Selection, exceeds, keep_all, least_bytes, selection
from coopsim.planning.with_copies import with_copies

_CLOSE = 0.0025  # of the iteration's cost: nearer to the least, another choice is not tried
_SEGMENTED = 4  # numbers of segments that are made to fit
_DRY_RUNS = (500, 5_000)  # at most, for a choice, a step; more where neither was enough, as nearly nothing fits there


def make(request: Request, start: Start) -> ResidencyPlan | None:
    """A plan for an iteration that begins so; None if none is found that fits."""
    program, copying, placed = request.program, start.copying, start.placed
    budget, target = request.memory_bytes, request.target_bytes
    D = new_dry_run(program, first_run=request.in_place_once, copying=copying)
    if least_bytes(program, copying) > target:
        return None
    chosen, graph = selection(program, copying), new_cut(program)
    choose = _choose_segments if request.segmented else _choose
    few, many = (n * len(program.step_cost) for n in _DRY_RUNS)
    if copying is not None:
        return with_copies(D, chosen, graph, copying, target, budget, placed, (few, many))
    for dry_runs in (few, many):
        begin = choose(D, chosen, graph, target, dry_runs)
        if begin is not None:
            return with_addresses(D, chosen, begin, target, budget, placed, dry_runs)
    return None


def _choose(D: DryRun, chosen: Selection, graph: Cut, budget: int, most: int) -> Begin | None:
    """Decisions that fit into the budget, and their dry run. What they began with; None if none are found.

    From what is cheapest at the moments at which most would be resident. If what the rest of the steps then asks for
    takes the cost away from the least that there can be, the same is done from scratch, and the cheaper counts.
    """
    with_cut, without = (partial(keep_or_cut, D, graph, with_cut=cut) for cut in (True, False))
    least = with_cut(budget)
    if least < 0:
        return None
    fits = make_fit(D, chosen, budget, most)
    if fits and D.K[D_COST] - least <= _CLOSE * D.O[:, s.DECIDE].sum():
        return with_cut
    decisions, cost = D.decisions.copy(), D.K[D_COST]
    without(budget)
    if make_fit(D, chosen, budget, most) and not (fits and cost <= D.K[D_COST]):
        return without
    D.decisions[:] = decisions
    dry_run(D)
    return with_cut if fits else None


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
        if make_fit(D, chosen, budget, most) and (best is None or D.K[D_COST] < best[0]):
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
    for turn in fullest(D):
        segments.decide(D, turn, segments.narrow_places(D, turn, count), linger=linger)
    return 0.0 if dry_run(D) else -1.0
