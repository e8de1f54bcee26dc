"""Replans: puts a schedule in place of one by which steps exceeded the budget, or were not steady. Knows no torch.

A margin is a number of bytes that a plan leaves of the budget.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from coopsim.live.host_time import priced, step_time
from coopsim.live.parameters import PlanningParameters
from coopsim.live.plan_state import Candidate, Failure, PlanState
from coopsim.live.search import Search
from coopsim.live.signatures import Signature
from coopsim.schedule import Schedule
from coopsim.types import Action

_POINT = 0.01  #: of predicted overhead, for which a plan is made anew that was made with other prices


def exceeding(
    state: PlanState, search: Search, p: PlanningParameters, excess: int, *, ran_out: bool, once: bool
) -> list[int]:
    """Margins of the next plan, after a step that took `excess` bytes more than the budget, or ran out of memory.

    The first that makes another plan counts: where tensors are few and large, small ones make the same. once: no other
    step of the signature can show whether a smaller one would do.
    """
    state.fail(excess, ran_out=ran_out)
    growth = p.margin_growth_once if once or ran_out else p.margin_growth
    more = growth * max(failure.candidate.margin for failure in state.failures)
    margin = max(state.margin + excess, int(more), int(p.least_margin * search.limit))
    return [margin, 2 * margin, 4 * margin]


def unsteady(state: PlanState, search: Search, p: PlanningParameters, retries: int, steady_margin: int = 0) -> bool:
    """Adopt a schedule that leaves more, if that costs less than what the steps take from the device and give back.

    If there is none, the signature goes back to the cheapest of those that kept to the budget, and is replanned no
    more. Returns whether another schedule was adopted. retries: how often a step gives back the allocator's cache.
    steady_margin: what the latest plan leaves whose steps are steady, of whatever signature.
    """
    state.repair()
    state.fail(0, retries=retries)
    least = max(int(p.margin_growth_once * state.margin), int(p.least_margin * search.limit), steady_margin)
    margins = [(least + state.margin * k) // (1 + k) for k in (0, 1, 3)]  # nearer ones, if the first costs too much
    margins += [int(least * p.margin_growth_once**k) for k in (1, 2)]  # larger ones, where they make no other plan
    step_ns = max(int(search.trace.cost_ns.sum()), 1)
    kept = [failure for failure in state.failures if not (failure.ran_out or failure.excess)]
    most = min(_with_retries(failure, p.retry_ns / step_ns) for failure in kept)
    return replan(state, search, p, margins, most)


def _with_retries(failure: Failure, retry: float) -> float:
    """The cost of a schedule that failed, with what its steps lose by giving back the allocator's cache."""
    return failure.candidate.cost + failure.retries * retry


def replan(
    state: PlanState,
    search: Search,
    p: PlanningParameters,
    margins: Sequence[int],
    most: float = math.inf,
    equal_excess: int = 0,
) -> bool:
    """Adopt the cheapest schedule not tried yet, of those found before and of those that leave the first margin.

    Where none costs at most `most`, the next margin counts. If it is so for all, or the signature was replanned too
    often, go back to the cheapest of those that exceeded least, by `equal_excess` bytes more at most; or, if steps ran
    out of memory by all of them, to the one that leaves most. True if another schedule was adopted, and False if an
    earlier one was.
    """
    goes_on = state.repairs <= p.max_repairs
    tried = [failure.candidate.schedule for failure in state.failures]
    for margin in margins if goes_on else ():
        found, infeasible = search.leaving(margin, state.margin, state.infeasible_margin)
        known = [*state.candidates, *found]
        state.found([other for other in known if not any(_same(other.schedule, one) for one in tried)], infeasible)
        if any(other.cost <= most for other in state.candidates):
            break
    best = min(state.candidates, key=_cost, default=None)
    if goes_on and best is not None and best.cost <= most:
        state.adopt(best)
        return True
    ran_out, excess = min((failure.ran_out, failure.excess) for failure in state.failures)
    excess += equal_excess if excess > 0 else 0
    nearest = [f.candidate for f in state.failures if f.ran_out == ran_out and f.excess <= excess]
    largest = max((f.candidate for f in state.failures), key=lambda candidate: candidate.margin)
    state.finish()
    state.adopt(largest if ran_out else min(nearest, key=_cost))
    return False


def reprice(signature: Signature, read: Mapping[int, int], card: str) -> None:
    """Give a step signature and its schedule the costs of ops that were timed on a card, by op of the trace, in ns.

    What a schedule waits for copies stays as it was.
    """
    trace, schedule = signature.trace, signature.state.schedule
    entries = {entry.op: entry for entry in signature.op_log if entry.op >= 0}
    found, about = priced(card, dict(enumerate(trace.cost_ns.tolist())), entries, read)
    costs = np.array(list(found.values()), np.int64)
    signature.reprice(replace(trace, cost_ns=costs, header=dict(trace.header) | about))
    if schedule is None:
        return
    ran = schedule.op[np.isin(schedule.action, (Action.COMPUTE, Action.RECOMPUTE))]
    head = dict(schedule.header)
    more = int(costs[ran].sum() - trace.cost_ns[ran].sum())
    head["total_cost_ns"] += more
    head["recompute_cost_ns"] += more - int(costs.sum() - trace.cost_ns.sum())
    head |= {"base_step_cost_ns": [int(costs.sum())], "trace": signature.trace.content_hash}
    signature.state.reprice(replace(schedule, header=head))


def better(signature: Signature, candidate: Candidate | None) -> Candidate | None:
    """A schedule by which a step is predicted to have at least a point less of overhead than by the signature's own.

    None if `candidate` is no such schedule.
    """
    own = signature.state.schedule
    if own is None or candidate is None:
        return None
    now, then = (step_time(signature.trace, one, len(signature.op_log)) for one in (own, candidate.schedule))
    return candidate if then.overhead + _POINT <= now.overhead else None


def _cost(candidate: Candidate) -> float:
    return candidate.cost


def _same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules have the same actions in the same order, wherever the bytes lie."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("action", "op", "storage", "version"))
