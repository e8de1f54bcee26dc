"""Finds the schedule of a recorded step in a budget: what to evict and recompute, and when. Knows no torch.

The allocator chooses addresses itself, so a schedule that was found without addresses is good, too. Overhead is here
the cost of the step with its recomputations, divided by its cost without: 1.1 is 10 % more time.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from coopsim import allocators, metrics, policies
from coopsim.live.hosting import STAYS, Hosting, copying
from coopsim.live.plan import AWAY, HOLD
from coopsim.optimum.problem import Problem, problem_of
from coopsim.options import ReplayOptions
from coopsim.policies import Policy
from coopsim.program.lower import lower
from coopsim.replay.once import Replay
from coopsim.replay.result import schedule_of
from coopsim.schedule import Schedule
from coopsim.text import human
from coopsim.trace import Trace
from coopsim.trace.ragged import Ragged
from coopsim.types import Action, CoopsimError, InPlace, Outcome, Pinning, Role

CHEAP = 1.1  #: overhead up to which no other schedule is tried
_DEAR = 1.75  #: overhead above which a schedule is refused: checkpointing costs less than 1.5
_OF_THE_OP = "of the op"
_OPTIONS = ReplayOptions(steps=1)
_WORTH = 4096  #: the budget divided by this is the least of a value that is on the host between steps
_ROOMY = 4  #: times the budget, the size of a simulated arena in which addresses are always found


def find(trace: Trace, policy: Policy | str, budget: int, hosting: Hosting | None = None) -> Schedule:
    """The cheapest schedule found for a step under a policy, a policy or its name, in `budget` bytes.

    The first is the policy's own, replayed in a simulated memory with addresses. It is returned if its overhead (total
    cost ÷ cost without recomputation) is at most 1.1, and if it was planned where the policy plans. Otherwise, for a
    policy that plans, two more are made, a plan without addresses and one in the shape of checkpointing; and if all
    have an overhead above 1.75, a replay that only counts bytes. With `hosting`, and a policy that plans, a plan that
    offloads is made, too, and returned if it costs less. A schedule is always returned: `explain` says why it is none
    to follow, if none runs to its end, or all have an overhead above 1.75. Raises CoopsimError as `recomputing` does.
    """
    policy = recomputing(policy)
    found = _recomputing(trace, policy, budget)
    if hosting is None or not policy.plans or _cost(found) == 1.0:
        return found
    found = _cheapest([found, *_offloading(trace, policy, budget, hosting)])
    if not hosting.between or _cost(found) <= CHEAP:
        return found
    return _cheapest([found, _away_between(trace, policy, budget, hosting)])


def _offloading(trace: Trace, policy: Policy, budget: int, hosting: Hosting) -> list[Schedule]:
    """Plans with copies: of what ops make, and of what stays from step to step, too, where that is allowed."""
    options = hosting.options
    found = [_without_addresses(trace, copying(policy), budget, options=options)]
    if hosting.state:
        both = copying(policy, state=True)
        plan = _without_addresses(_read_at_end(trace), both, budget, options=options, from_start=STAYS)
        found.append(replace(plan, header=dict(plan.header) | {"trace": trace.content_hash}))
    return found


def _away_between(trace: Trace, policy: Policy, budget: int, hosting: Hosting) -> Schedule:
    """A plan with copies by which the optimizer's state is on the host at the start of a step, and at its end."""
    state = trace.alive_at_start & (trace.becomes >= 0) & (trace.bytes * _WORTH >= budget)
    away = frozenset(s for s in np.flatnonzero(state).tolist() if trace.role[s] == Role.OPTIMIZER_STATE)
    policy = copying(policy, state=True)
    plan = _without_addresses(
        _read_at_end(trace, away), policy, budget, options=hosting.options, from_start=STAYS, away=away
    )
    return replace(plan, header=dict(plan.header) | {"trace": trace.content_hash, AWAY: sorted(away)})


def _read_at_end(trace: Trace, away: Collection[int] = ()) -> Trace:
    """The trace with a last op that reads what stays, too: it may leave after its last use, and comes back.

    away: storages that need not come back.
    """
    freed = set(trace.freed[trace.freed_after < trace.n_ops - 1].tolist())
    stays = [s for s, role in enumerate(trace.role) if role in STAYS and s not in freed and s not in away]
    *rows, last = trace.reads.rows()
    return replace(trace, reads=Ragged.of([*rows, sorted({*last, *stays})]))


def _recomputing(trace: Trace, policy: Policy, budget: int) -> Schedule:
    first = _schedule(trace, policy, budget, "arena")
    planned = not policy.plans or first.header["planned_steps"]
    if planned and _cost(first) <= CHEAP:
        return first
    found = [first]
    if policy.plans:
        found += [_without_addresses(trace, policy, budget, segmented=segmented) for segmented in (False, True)]
    if min(map(_cost, found)) > _DEAR:
        found.append(_schedule(trace, policy, budget, "counter"))
    return _cheapest(found)


def recomputing(policy: Policy | str) -> Policy:
    """The policy of that name, or the policy itself. Raises CoopsimError for an unknown name.

    So, too, for a policy that offloads, as training inside a budget only recomputes.
    """
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if policy.offloads:
        raise CoopsimError(f"policy {policy.name}: training inside a budget knows no lose={policy.lose}, it recomputes")
    return policy


def padded(
    trace: Trace, policy: Policy | str, budget: int, spare: int, hosting: Hosting | None = None
) -> Schedule | None:
    """A schedule that leaves `spare` bytes of `budget` unused, or, at ops that leave less than that, half of the rest.

    It is the cheaper of a plan and one in the shape of checkpointing; None for a policy that makes no plans. If neither
    fits, or both have an overhead above 1.75, one is returned nevertheless, and `explain` says so.
    """
    policy = recomputing(policy)
    if not policy.plans:
        return None
    wider = _padded(trace, budget, spare)
    plans = [_without_addresses(wider, policy, budget, segmented=segmented) for segmented in (False, True)]
    if hosting is not None:
        plans += _offloading(wider, policy, budget, hosting)
        plans += [_away_between(wider, policy, budget, hosting)] if hosting.between else []
    return _cheapest([_without_padding(plan, trace) for plan in plans])


def _cheapest(found: list[Schedule]) -> Schedule:
    best = min(found, key=_cost)
    if best.header["outcome"] == Outcome.OK and _cost(best) > _DEAR:
        return replace(best, header=dict(best.header) | {"outcome": Outcome.THRASH, "overhead_limit": _DEAR})
    return best


def _cost(schedule: Schedule) -> float:
    overhead = schedule.overhead
    return overhead if overhead is not None else math.inf


def _padded(trace: Trace, budget: int, spare: int) -> Trace:
    """The trace with a temporary of `spare` bytes added to each op, or of half of what the op leaves of the budget."""
    extra = [min(spare, max(budget - need, 0) // 2) for need in needs(trace)]
    rows = [[*row, nbytes] for row, nbytes in zip(trace.temporaries.rows(), extra, strict=True)]
    return replace(trace, temporaries=Ragged.of(rows), requests=Ragged.of([] for _ in rows))


def _without_padding(schedule: Schedule, trace: Trace) -> Schedule:
    """The schedule without the added temporaries, which come last in each op. Its peak still includes them."""
    own = np.diff(trace.temporaries.start)
    ours = (schedule.storage >= 0) | (schedule.version < 0) | (schedule.version < own[schedule.op])
    return replace(schedule.select(ours), header=dict(schedule.header) | {"trace": trace.content_hash})


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
    header = schedule.header
    if header["outcome"] == Outcome.OK:
        return ""
    if header["outcome"] == Outcome.THRASH and schedule.header["failure"] is None:
        return f"the cheapest schedule that was found costs more than {_DEAR:g} times the step"
    if schedule.header["failure"] is None:
        return "no schedule was found that fits"
    return metrics.explain(metrics.summary(schedule))


def _schedule(trace: Trace, policy: Policy, budget: int, allocator: str) -> Schedule:
    replay = Replay(trace, policy, budget, allocators.find(allocator), _OPTIONS)
    return _as_followed(trace, schedule_of(replay, replay.run(record=True)))


def _without_addresses(
    trace: Trace,
    policy: Policy,
    budget: int,
    *,
    segmented: bool = False,
    options: ReplayOptions = _OPTIONS,
    from_start: frozenset[Role] | None = None,
    away: frozenset[int] = frozenset(),
) -> Schedule:
    """A plan that keeps to `budget` bytes, wherever they lie; if none is found, its outcome is out of memory."""
    replay = Replay(trace, policy, _ROOMY * budget, allocators.ARENA, options)
    assert replay.planner is not None
    replay.planner.most, replay.planner.segmented, replay.planner.from_start = budget, segmented, from_start
    replay.planner.away = away
    schedule = _as_followed(trace, schedule_of(replay, replay.run(record=True)))
    if schedule.header["peak_bytes"] <= budget and schedule.header["planned_steps"]:
        return schedule
    return replace(schedule, header=dict(schedule.header) | {"outcome": Outcome.OOM})


def _as_followed(trace: Trace, schedule: Schedule) -> Schedule:
    """The schedule, at what a step costs that follows it.

    After the last op that the step dispatches only pseudo-ops read, and only the last of them makes a step bring values
    back: those that the program has at its end. For the others, of values that the program drops first, nothing is run
    again or waited for.
    """
    runs = np.flatnonzero(schedule.action == Action.COMPUTE)
    dispatched = [i for i, op in enumerate(schedule.op[runs].tolist()) if trace.name[op] != HOLD]
    if schedule.header["outcome"] != Outcome.OK or not dispatched or dispatched[-1] >= len(runs) - 2:
        return schedule
    last, end = runs[dispatched[-1]], runs[-2]
    spared = int(schedule.time_ns[end] - schedule.time_ns[last] - trace.cost_ns[schedule.op[last]])
    total = schedule.header["total_cost_ns"] - spared
    return replace(schedule, header=dict(schedule.header) | {"total_cost_ns": total})
