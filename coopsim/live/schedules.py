"""Seeks the schedule of a recorded step in a budget: what to evict and recompute, and when. Knows no torch.

The allocator chooses addresses itself, so a schedule that was found without addresses is good, too. Overhead is here
the cost of the step with its recomputations, divided by its cost without: 1.1 is 10 % more time.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from coopsim.base.text import human
from coopsim.base.types import CoopsimError, InPlace, Lose, Outcome, Pinning, Role
from coopsim.live.host import Hosting, step_time
from coopsim.live.plan import HOLD
from coopsim.live.signatures import Candidate
from coopsim.simulate import allocators, metrics, policies
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


def recomputing(policy: Policy | str) -> Policy:
    """The policy of that name, or the policy itself. Raises CoopsimError for an unknown name.

    So, too, for a policy that offloads, as training inside a budget only recomputes.
    """
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if policy.offloads:
        raise CoopsimError(f"policy {policy.name}: training inside a budget knows no lose={policy.lose}, it recomputes")
    return policy


@dataclass(frozen=True)
class Search:
    """What schedules are sought for: a step of `trace`, by a policy or its name, in `limit` bytes.

    others: bytes of the limit that are not the program's. hosting: what schedules may use of the host. ops: that the
    step dispatches to a GPU, 0 on the CPU; the time that the host takes for them, for recomputations and for copies
    counts where it decides between schedules that copy and others (host.py). margin: bytes that the first schedule
    leaves of the limit. The methods raise CoopsimError as `recomputing` does.
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

    def first(self) -> Candidate | str:
        """A schedule that leaves the margin; if there is none, one that leaves nothing; or why there is none."""
        if why := self.too_much():
            return why
        found = self.leaving(self.margin)
        return self.leaving(0) if isinstance(found, str) and self.margin else found

    def leaving(self, margin: int) -> Candidate | str:
        """The cheapest schedule found that leaves so many bytes; or why there is none, in one line.

        If it does not fit, or its overhead is above 1.1, one may leave them only at ops that can. What costs more than
        1.75 times the step is none.
        """
        if self.room <= margin:
            return "nothing is left of the budget"
        policy = recomputing(self.policy)
        markers = frozenset(op for op, name in enumerate(self.trace.name) if name == HOLD)
        request = PlanRequest(self.trace, policy, self.room - margin, options=_OPTIONS, markers=markers)
        found = _recomputing(request)
        if self.hosting is not None and policy.plans and _cost(found) != 1.0:
            found = self._cheapest([found, _copying(request, self.hosting)])
        if margin and policy.plans and (_explain(found) or _cost(found) > CHEAP):
            found = min(found, self._sparing(replace(request, budget=self.room), margin), key=_cost)
        return _explain(found) or Candidate(margin, found)

    def _sparing(self, request: PlanRequest, spare: int) -> Schedule:
        """The cheapest plan that leaves `spare` bytes, or, at ops that leave less than that, half of the rest.

        Its peak includes these bytes.
        """
        left = tuple(min(spare, max(self.room - need, 0) // 2) for need in problem_of(self.trace).needed)
        request = replace(request, spare=left)
        return self._cheapest(_planned(request) + ([_copying(request, self.hosting)] if self.hosting else []))

    def _cheapest(self, found: list[Schedule]) -> Schedule:
        """That by which a step takes least time on the GPU or its host, whichever is slower; else least on the GPU."""

        def time(schedule: Schedule) -> float:
            if schedule.overhead is None or not self.ops:
                return _cost(schedule)
            return step_time(self.trace, schedule, self.ops).overhead

        return min(found, key=lambda one: (time(one), _cost(one)))


def _recomputing(request: PlanRequest) -> Schedule:
    """The policy's own schedule, replayed in a simulated memory with addresses, unless that is expensive.

    Otherwise, or if it was not planned although the policy plans, the cheapest of that, a plan without addresses and
    one in the shape of checkpointing; if all have an overhead above 1.75, of a replay that only counts bytes, too.
    """
    plans, found = request.policy.plans, [follow(request)]
    if plans and not (found[0].header["planned_steps"] and _cost(found[0]) <= CHEAP):
        found += _planned(request)
    if min(map(_cost, found)) > _DEAR:
        found.append(follow(replace(request, allocator=allocators.COUNTER)))
    return min(found, key=_cost)


def _planned(request: PlanRequest) -> list[Schedule]:
    """A plan without addresses, and one in the shape of checkpointing."""
    return [follow(replace(request, addresses=False, segmented=segmented)) for segmented in (False, True)]


def _copying(request: PlanRequest, hosting: Hosting) -> Schedule:
    """A plan without addresses, and with copies to the host of what ops make."""
    policy = replace(request.policy, lose=Lose.EITHER)
    return follow(replace(request, addresses=False, options=hosting.options, policy=policy))


def _cost(schedule: Schedule) -> float:
    overhead = schedule.overhead
    return overhead if overhead is not None else math.inf


def _explain(schedule: Schedule) -> str:
    """Why a schedule cannot be followed, in one line: it does not fit, or is too expensive; "" if it can."""
    if schedule.header["outcome"] == Outcome.OK:
        dear = f"the cheapest schedule that was found costs more than {_DEAR:g} times the step"
        return dear if _cost(schedule) > _DEAR else ""
    if schedule.header["failure"] is None:
        return "no schedule was found that fits"
    return metrics.explain(metrics.summary(schedule))


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
