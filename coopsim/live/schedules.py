"""Finds the schedule of a recorded step in a budget: what to evict and recompute, and when. Knows no torch.

The allocator chooses addresses itself, so a schedule that was found without addresses is good, too. Overhead is here
the cost of the step with its recomputations, divided by its cost without: 1.1 is 10 % more time. Search seeks those
that leave some of the budget unused.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from coopsim.base.text import human
from coopsim.base.types import CoopsimError, InPlace, Outcome, Pinning, Role
from coopsim.live.host import Hosting, copying, step_time
from coopsim.live.plan import HOLD
from coopsim.live.signatures import Candidate
from coopsim.simulate import allocators, metrics, policies
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.planning.request import PlanRequest
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import follow
from coopsim.study.optimum.problem import problem_of
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

CHEAP = 1.1  #: overhead up to which no other schedule is tried
_DEAR = 1.75  #: overhead above which a schedule is refused: checkpointing costs less than 1.5
_OF_THE_OP = "of the op"
_OPTIONS = ReplayOptions(steps=1)


def find(trace: Trace, policy: Policy | str, budget: int, hosting: Hosting | None = None, ops: int = 0) -> Schedule:
    """The cheapest schedule found for a step under a policy, a policy or its name, in `budget` bytes.

    The first is the policy's own, replayed in a simulated memory with addresses. It is returned if its overhead (total
    cost ÷ cost without recomputation) is at most 1.1, and if it was planned where the policy plans. Otherwise, for a
    policy that plans, two more are made, a plan without addresses and one in the shape of checkpointing; and if all
    have an overhead above 1.75, a replay that only counts bytes. With `hosting`, and a policy that plans, a plan that
    offloads is made, too, and returned if it costs less. ops: that the step dispatches to a GPU, 0 on the CPU; the time
    that the host takes for them, for recomputations and for copies counts where it decides between plans that offload
    and others (host.py). A schedule is always returned: `explain` says why it is none
    to follow, if none runs to its end, or all have an overhead above 1.75. Raises CoopsimError as `recomputing` does.
    """
    policy = recomputing(policy)
    found = _recomputing(trace, policy, budget)
    if hosting is None or not policy.plans or _cost(found) == 1.0:
        return found
    request = _request(trace, policy, budget, addresses=False)
    return _cheapest([found, _offloading(request, hosting)], trace, ops)


def _offloading(request: PlanRequest, hosting: Hosting) -> Schedule:
    """A plan with copies of what ops make."""
    return follow(replace(request, options=hosting.options, policy=copying(request.policy)))


def _recomputing(trace: Trace, policy: Policy, budget: int) -> Schedule:
    first = follow(_request(trace, policy, budget))
    planned = not policy.plans or first.header["planned_steps"]
    if planned and _cost(first) <= CHEAP:
        return first
    found = [first]
    if policy.plans:
        anywhere = _request(trace, policy, budget, addresses=False)
        found += [follow(replace(anywhere, segmented=segmented)) for segmented in (False, True)]
    if min(map(_cost, found)) > _DEAR:
        found.append(follow(_request(trace, policy, budget, allocator=allocators.COUNTER)))
    return _cheapest(found, trace)


def recomputing(policy: Policy | str) -> Policy:
    """The policy of that name, or the policy itself. Raises CoopsimError for an unknown name.

    So, too, for a policy that offloads, as training inside a budget only recomputes.
    """
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if policy.offloads:
        raise CoopsimError(f"policy {policy.name}: training inside a budget knows no lose={policy.lose}, it recomputes")
    return policy


def padded(
    trace: Trace, policy: Policy | str, budget: int, spare: int, hosting: Hosting | None = None, ops: int = 0
) -> Schedule | None:
    """A schedule that leaves `spare` bytes of `budget` unused, or, at ops that leave less than that, half of the rest.

    Its peak includes these bytes. It is the cheaper of a plan and one in the shape of checkpointing; None for a policy
    that makes no plans. ops: as of `find`. If neither fits, or both have an overhead above 1.75, one is returned
    nevertheless, and `explain` says so.
    """
    policy = recomputing(policy)
    if not policy.plans:
        return None
    left = tuple(min(spare, max(budget - need, 0) // 2) for need in problem_of(trace).needed)
    request = _request(trace, policy, budget, addresses=False, spare=left)
    plans = [follow(replace(request, segmented=segmented)) for segmented in (False, True)]
    if hosting is not None:
        plans.append(_offloading(request, hosting))
    return _cheapest(plans, trace, ops)


def _cheapest(found: list[Schedule], trace: Trace, ops: int = 0) -> Schedule:
    """The one by which a step takes least time on the GPU or its host, whichever is slower; else least on the GPU."""

    def time(schedule: Schedule) -> float:
        if schedule.overhead is None or not ops:
            return _cost(schedule)
        return step_time(trace, schedule, ops).overhead

    return min(found, key=lambda one: (time(one), _cost(one)))


def _cost(schedule: Schedule) -> float:
    overhead = schedule.overhead
    return overhead if overhead is not None else math.inf


@dataclass(frozen=True)
class Least:
    """A lower bound on the bytes of any schedule: `nbytes`, what the most demanding op, `op`, needs while it runs.

    held: these bytes by role, the most first.
    """

    nbytes: int
    op: str
    held: dict[str, int]


def least(trace: Trace) -> Least:
    """The lower bound on the bytes of any schedule of a step.

    In `held`, operands, results and temporaries without another role count as "of the op".
    """
    problem = problem_of(trace)
    need = problem.needed
    op = max(range(len(need)), key=need.__getitem__)
    storage = lower(trace, in_place=InPlace.COPY, pinning=Pinning.DECLARED, granule=1).storage.tolist()
    held: Counter[str] = Counter({_OF_THE_OP: problem.inside[op]})
    for v in problem.at_least(op):
        role = trace.role[storage[v]]
        held[_OF_THE_OP if role in (Role.ACTIVATION, Role.TEMPORARY) else role] += problem.size[v]
    return Least(need[op], trace.name[op], {role: n for role, n in held.most_common() if n})


def explain(schedule: Schedule) -> str:
    """Why a schedule cannot be followed, in one line: it does not fit, or is too expensive; "" if it can."""
    if schedule.header["outcome"] == Outcome.OK:
        dear = f"the cheapest schedule that was found costs more than {_DEAR:g} times the step"
        return dear if _cost(schedule) > _DEAR else ""
    if schedule.header["failure"] is None:
        return "no schedule was found that fits"
    return metrics.explain(metrics.summary(schedule))


def _request(
    trace: Trace,
    policy: Policy,
    budget: int,
    *,
    allocator: Allocator = allocators.ARENA,
    addresses: bool = True,
    spare: tuple[int, ...] = (),
) -> PlanRequest:
    """One step of a recorded trace; arguments as of Request."""
    markers = frozenset(op for op, name in enumerate(trace.name) if name == HOLD)
    return PlanRequest(trace, policy, budget, allocator, _OPTIONS, addresses, spare=spare, markers=markers)


@dataclass(frozen=True)
class Found:
    """The result of a search: a candidate, or in one line why there is none.

    too_much: no schedule can exist, as an op needs more than the budget.
    """

    candidate: Candidate | None
    why: str = ""
    too_much: bool = False


@dataclass(frozen=True)
class Search:
    """What schedules are sought for: a step of `trace`, by a policy or its name, in `limit` bytes.

    others: bytes of the limit that are not the program's. hosting: what schedules may use of the host. ops: that the
    step dispatches to a GPU, 0 on the CPU. margin: bytes that the first schedule leaves of the limit.
    """

    trace: Trace
    policy: Policy | str
    limit: int
    others: int = 0
    hosting: Hosting | None = None
    ops: int = 0
    margin: int = 0

    @property
    def room(self) -> int:
        """Bytes for the program's storages."""
        return self.limit - self.others

    def too_much(self) -> str:
        """Why no schedule can exist, in one line; "" if one may."""
        most = least(self.trace)
        if most.nbytes <= self.room:
            return ""
        beside = f", {human(self.others)} of them for others than the program" if self.others else ""
        needs = f"{human(most.nbytes + self.others)} whatever is evicted{beside}"
        what = "what the program may still read" if most.op == HOLD else most.op
        return f"{what} takes {needs}; the budget is {human(self.limit)}"

    def first(self) -> Found:
        """A schedule that leaves the margin; if there is none, one that leaves nothing."""
        if why := self.too_much():
            return Found(None, why, too_much=True)
        found = self.leaving(self.margin)
        return found if found.candidate is not None or not self.margin else self.leaving(0)

    def leaving(self, margin: int) -> Found:
        """The cheaper of a schedule that leaves so many bytes, and one that leaves them only at ops that can.

        The second is sought where the first does not exist, or is expensive.
        """
        if self.room <= margin:
            return Found(None, "nothing is left of the budget")
        schedule = find(self.trace, self.policy, self.room - margin, self.hosting, self.ops)
        why = explain(schedule)
        found = [] if why else [Candidate(margin, schedule)]
        if margin and (why or found[0].cost > CHEAP):
            spared = padded(self.trace, self.policy, self.room, margin, self.hosting, self.ops)
            if spared is not None and not explain(spared):
                found.append(Candidate(margin, spared))
        return Found(min(found, key=lambda one: one.cost), "") if found else Found(None, why)
