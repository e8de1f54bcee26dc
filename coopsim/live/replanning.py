"""Judges plans by their steps, and finds a schedule in place of one that does not do well. Knows no torch.

Nothing is changed here: a judgement, or a schedule, is returned. A margin is a number of bytes that a plan leaves of
the budget.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan_state import Candidate, Failure, Judged, Open, PlanTrials
from coopsim.live.search import Search
from coopsim.schedule import Schedule


@dataclass(frozen=True)
class StepTook:
    """What a step by a plan took of the device.

    nbytes: at most. ran_out: it ran out of memory. calls: how often it took memory from the device or gave it back.
    retries: how often it gave back the allocator's cache to go on.
    """

    nbytes: int
    ran_out: bool = False
    calls: int = 0
    retries: int = 0


class Judgement(Enum):
    """How a step did by a plan."""

    KEPT = "it kept to the budget and was steady"
    ALLOCATED = "it kept to the budget, and called the device; segments may still take their shape, or the plan stays"
    UNSTEADY = "it kept to the budget, and after so many steps it should have been steady"
    EXCEEDED = "it took more than the budget, or ran out of memory"


def judge(state: Judged, took: StepTook, limit: int, warm_up: int, *, once: bool) -> Judgement:
    """Judge a step by the plan of a signature in this state.

    limit: the budget in bytes. warm_up: steps by a new plan that need not be steady. Those that call the device from
    then on without giving back the allocator's cache count as steady: the calls are the program's own. once: no other
    step has this signature, so that it does not matter whether it is steady.
    """
    if took.ran_out or took.nbytes > limit:
        return Judgement.EXCEEDED
    warm = state.allocating >= warm_up
    if once or not (took.retries or (took.calls and not warm)):
        return Judgement.KEPT
    return Judgement.UNSTEADY if warm and not state.finished else Judgement.ALLOCATED


@dataclass(frozen=True)
class Next:
    """The schedule that steps go by next. tried: what is then known. last: it failed before, and no other is left."""

    candidate: Candidate
    tried: PlanTrials
    last: bool


def after_excess(
    state: Open, search: Search, p: PlanningParameters, took: StepTook, *, once: bool, equal_excess: int
) -> Next:
    """What comes after a step that exceeded the budget.

    The first margin that makes another plan counts: where tensors are few and large, small ones make the same. once: no
    other step of the signature can show whether a smaller one would do. equal_excess: as of `_next`.
    """
    excess = took.nbytes - search.limit
    tried = state.tried.replan().fail(Failure(took.ran_out, excess, state.candidate))
    growth = p.margin_growth_once if once or took.ran_out else p.margin_growth
    more = growth * max(failure.candidate.margin for failure in tried.failures)
    margin = max(state.margin + excess, int(more), int(p.least_margin * search.limit))
    return _next(state.margin, tried, search, p, [margin, 2 * margin, 4 * margin], equal_excess=equal_excess)


def after_unsteady(state: Open, search: Search, p: PlanningParameters, retries: int, steady_margin: int = 0) -> Next:
    """What comes after steps that were never steady: a schedule that leaves more, where that costs less.

    Less, that is, than what steps lose by giving back the allocator's cache; `retries` times in the latest. If there is
    none, it is the cheapest of those that kept to the budget. steady_margin: a new one leaves no less, as steps by a
    plan that does were steady, of whatever signature.
    """
    tried = state.tried.replan().fail(Failure(ran_out=False, excess=0, candidate=state.candidate, retries=retries))
    least = max(int(p.margin_growth_once * state.margin), int(p.least_margin * search.limit), steady_margin)
    margins = [(least + state.margin * k) // (1 + k) for k in (0, 1, 3)]  # nearer ones, if the first costs too much
    margins += [int(least * p.margin_growth_once**k) for k in (1, 2)]  # larger ones, where they make no other plan
    step_ns = max(int(search.trace.cost_ns.sum()), 1)
    kept = [failure for failure in tried.failures if not (failure.ran_out or failure.excess)]
    most = min(failure.candidate.cost + failure.retries * p.retry_ns / step_ns for failure in kept)
    return _next(state.margin, tried, search, p, margins, most)


def _next(
    own: int,
    tried: PlanTrials,
    search: Search,
    p: PlanningParameters,
    margins: Sequence[int],
    most: float = math.inf,
    equal_excess: int = 0,
) -> Next:
    """The cheapest schedule not tried yet, of those found before and of those that leave the first margin.

    own: the present margin. Where no schedule costs at most `most`, the next margin is tried. If none does at any of
    them, or the signature was replanned too often, it is one that has failed: the cheapest of those that exceeded
    least, or by at most `equal_excess` bytes more; if steps ran out of memory by all, the one that leaves most.
    """
    goes_on = tried.replans <= p.max_replans
    failed = [failure.candidate.schedule for failure in tried.failures]
    for margin in margins if goes_on else ():
        found, infeasible = search.leaving(margin, own, tried.infeasible_margin)
        known = (*tried.waiting, *found)
        tried = tried.find(
            tuple(other for other in known if not any(_same(other.schedule, one) for one in failed)), infeasible
        )
        if any(other.cost <= most for other in tried.waiting):
            break
    best = min(tried.waiting, key=_cost, default=None)
    if goes_on and best is not None and best.cost <= most:
        return Next(best, tried, last=False)
    ran_out, excess = min((failure.ran_out, failure.excess) for failure in tried.failures)
    excess += equal_excess if excess > 0 else 0
    nearest = [f.candidate for f in tried.failures if f.ran_out == ran_out and f.excess <= excess]
    largest = max((failure.candidate for failure in tried.failures), key=lambda candidate: candidate.margin)
    return Next(largest if ran_out else min(nearest, key=_cost), tried, last=True)


def _cost(candidate: Candidate) -> float:
    return candidate.cost


def _same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same actions in the same order, wherever the bytes lie."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
