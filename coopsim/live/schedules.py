"""Finds the schedule of a recorded step in a budget: what to evict and recompute, and when. Knows no torch.

The allocator chooses addresses itself, so a schedule that was found without addresses is good, too. Overhead is here
the cost of the step with its recomputations, divided by its cost without: 1.1 is 10 % more time.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from coopsim import allocators, metrics, policies
from coopsim.allocators import Allocator
from coopsim.live.host.hosting import STAYS, Hosting, copying
from coopsim.live.host_time import step_time
from coopsim.live.plan import HOLD
from coopsim.optimum.problem import Problem, problem_of
from coopsim.options import ReplayOptions
from coopsim.planning.lower import lower
from coopsim.planning.request import PlanRequest
from coopsim.policies import Policy
from coopsim.replay import follow
from coopsim.schedule import Schedule
from coopsim.text import human
from coopsim.trace import Trace
from coopsim.types import CoopsimError, InPlace, Outcome, Pinning, Role

CHEAP = 1.1  #: overhead up to which no other schedule is tried
_DEAR = 1.75  #: overhead above which a schedule is refused: checkpointing costs less than 1.5
_OF_THE_OP = "of the op"
_OPTIONS = ReplayOptions(steps=1)
_WORTH = 4096  #: the budget divided by this is the least of a value that is on the host between steps


def find(trace: Trace, policy: Policy | str, budget: int, hosting: Hosting | None = None, ops: int = 0) -> Schedule:
    """The cheapest schedule found for a step under a policy, a policy or its name, in `budget` bytes.

    The first is the policy's own, replayed in a simulated memory with addresses. It is returned if its overhead (total
    cost ÷ cost without recomputation) is at most 1.1, and if it was planned where the policy plans. Otherwise, for a
    policy that plans, two more are made, a plan without addresses and one in the shape of checkpointing; and if all
    have an overhead above 1.75, a replay that only counts bytes. With `hosting`, and a policy that plans, a plan that
    offloads is made, too, and returned if it costs less. ops: that the step dispatches to a GPU, 0 on the CPU; the time
    that the host takes for them, for recomputations and for copies counts where it decides between plans that offload
    and others (host_time.py). A schedule is always returned: `explain` says why it is none
    to follow, if none runs to its end, or all have an overhead above 1.75. Raises CoopsimError as `recomputing` does.
    """
    policy = recomputing(policy)
    found = _recomputing(trace, policy, budget)
    if hosting is None or not policy.plans or _cost(found) == 1.0:
        return found
    request = _request(trace, policy, budget, addresses=False)
    found = _cheapest([found, *_offloading(request, hosting)], trace, ops)
    if not hosting.between or _cost(found) <= CHEAP:
        return found
    return _cheapest([found, _away_between(request, hosting)], trace, ops)


def _offloading(request: PlanRequest, hosting: Hosting) -> list[Schedule]:
    """Plans with copies: of what ops make, and of what stays from step to step, too, where that is allowed."""
    request = replace(request, options=hosting.options)
    found = [follow(replace(request, policy=copying(request.policy)))]
    if hosting.state:
        found.append(follow(_with_state(request)))
    return found


def _with_state(request: PlanRequest, away: frozenset[int] = frozenset()) -> PlanRequest:
    """What stays from step to step may leave, too, and comes back, but for the storages in `away`."""
    policy, held = copying(request.policy, state=True), _staying(request.trace) - away
    return replace(request, policy=policy, persistent=STAYS, held=held, away=away)


def _away_between(request: PlanRequest, hosting: Hosting) -> Schedule:
    """A plan with copies by which the optimizer's state is on the host at the start of a step, and at its end."""
    trace = request.trace
    state = trace.alive_at_start & (trace.becomes >= 0) & (trace.bytes * _WORTH >= request.budget)
    away = frozenset(s for s in np.flatnonzero(state).tolist() if trace.role[s] == Role.OPTIMIZER_STATE)
    return follow(_with_state(replace(request, options=hosting.options), away))


def _staying(trace: Trace) -> frozenset[int]:
    """Storages of what stays from step to step that are there when the last op runs."""
    freed = set(trace.freed[trace.freed_after < trace.n_ops - 1].tolist())
    return frozenset(s for s, role in enumerate(trace.role) if role in STAYS and s not in freed)


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
    left = tuple(min(spare, max(budget - need, 0) // 2) for need in needs(trace))
    request = _request(trace, policy, budget, addresses=False, spare=left)
    plans = [follow(replace(request, segmented=segmented)) for segmented in (False, True)]
    if hosting is not None:
        plans += _offloading(request, hosting)
        plans += [_away_between(request, hosting)] if hosting.between else []
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


def needs(trace: Trace, *, state: bool = False) -> list[int]:
    """For each op of a trace, in order, the bytes that are allocated while it runs, even if all else is evicted.

    state: what stays from step to step (parameters, the optimizer's state, buffers) may be on the host, too.
    """
    problem = problem_of(trace)
    held = _held(trace, problem, state=state)
    return [problem.bytes_of(values) + inside for values, inside in zip(held, problem.inside, strict=True)]


def _held(trace: Trace, problem: Problem, *, state: bool) -> list[frozenset[int]]:
    """For each op, the values that are allocated while it runs, whatever is evicted; arguments as of `needs`."""
    found = [problem.at_least(op) for op in range(problem.n_ops)]
    if not state:
        return found
    stays = frozenset(v for v, s in enumerate(_storages(trace)) if s >= 0 and trace.role[s] in STAYS)
    return [values - stays.difference(problem.ins[op], problem.outs[op]) for op, values in enumerate(found)]


def _storages(trace: Trace) -> list[int]:
    """For each value of the problem of a trace, the number of its storage; below 0 for a temporary."""
    return lower(trace, in_place=InPlace.COPY, pinning=Pinning.DECLARED, granule=1).storage.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Least:
    """A lower bound on the bytes of any schedule: `nbytes`, what the most demanding op, `op`, needs while it runs.

    held: these bytes by role, the most first.
    """

    nbytes: int
    op: str
    held: dict[str, int]


def least(trace: Trace, *, state: bool = False, between: bool = False) -> Least:
    """The lower bound on the bytes of any schedule of a step; `state` as of `needs`, `between` as of Hosting.

    In `held`, operands, results and temporaries without another role count as "of the op". What stays is all there at
    the end of a step, unless `between`, which may be the most that it needs.
    """
    problem = problem_of(trace)
    need = needs(trace, state=state)
    op = max(range(len(need)), key=need.__getitem__)
    stays: Counter[str] = Counter()
    for role, nbytes, there in zip(trace.role, trace.bytes.tolist(), trace.alive_at_start.tolist(), strict=True):
        stays[role] += nbytes if there and role in STAYS else 0
    if sum(stays.values()) > need[op] and not between:
        return Least(sum(stays.values()), "the end of a step", _sorted(stays))
    storage = _storages(trace)
    held: Counter[str] = Counter({_OF_THE_OP: problem.inside[op]})
    for v in _held(trace, problem, state=state)[op]:
        role = trace.role[storage[v]]
        held[_OF_THE_OP if role in (Role.ACTIVATION, Role.TEMPORARY) else role] += problem.size[v]
    return Least(need[op], trace.name[op], _sorted(held))


def _sorted(held: Mapping[str, int]) -> dict[str, int]:
    return {role: n for role, n in sorted(held.items(), key=lambda x: -x[1]) if n}


def too_much(least: Least, others: int, budget: int) -> str:
    """Return one line which says that an op needs more than the budget, in bytes. others: bytes not the program's."""
    beside = f", {human(others)} of them for others than the program" if others else ""
    return f"{least.op} takes {human(least.nbytes + others)} whatever is evicted{beside}; the budget is {human(budget)}"


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
