"""The schedule of a recorded step in a budget. Knows no torch.

Addresses are the allocator's own to choose, so one that fits without any counts, too.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from coopsim import allocators, metrics, policies
from coopsim.optimum.problem import problem_of
from coopsim.options import ReplayOptions
from coopsim.policies import Policy
from coopsim.replay.lower import lower
from coopsim.replay.once import Replay
from coopsim.replay.result import schedule_of
from coopsim.schedule import Schedule
from coopsim.text import human
from coopsim.trace import Trace
from coopsim.trace.table import Ragged
from coopsim.types import CoopsimError, InPlace, Outcome, Pinning, Role

CHEAP = 1.1  #: cost over that without recomputation, up to which nothing else is tried
_DEAR = 1.75  #: above that it is refused: checkpointing costs less than 1.5
_OF_THE_OP = "of the op"
_OPTIONS = ReplayOptions(steps=1)
_ROOMY = 4  #: times the budget: an arena in which addresses are always found


def find(trace: Trace, policy: Policy | str, budget: int) -> Schedule:
    """One that runs to its end: a policy's own in an arena, if that is cheap enough; else the cheapest of several.

    Those are a plan that has no addresses, one in the shape of checkpointing, and a replay in a counter. If none does,
    or all cost several times the step, one whose header says so.
    """
    policy = recomputing(policy)
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
    """The policy, as one for training; CoopsimError for one that there is not, or that offloads."""
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if policy.offloads:
        raise CoopsimError(f"policy {policy.name}: training inside a budget knows no lose={policy.lose}, it recomputes")
    return policy


def padded(trace: Trace, policy: Policy | str, budget: int, spare: int) -> Schedule | None:
    """One that leaves so many bytes of the budget; where an op needs them whatever is evicted, as many as can be.

    The cheaper of a plan and one in the shape of checkpointing; None: the policy makes no plans. If there is none, or
    both cost several times the step, the header says so.
    """
    policy = recomputing(policy)
    if not policy.plans:
        return None
    wider = _padded(trace, budget, spare)
    plans = [_without_addresses(wider, policy, budget, segmented=segmented) for segmented in (False, True)]
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
    """Each op with a temporary of so many bytes, or of half of what it leaves of the budget at most."""
    extra = [min(spare, max(budget - need, 0) // 2) for need in needs(trace)]
    rows = [[*row, nbytes] for row, nbytes in zip(trace.temporaries.rows(), extra, strict=True)]
    return replace(trace, temporaries=Ragged.of(rows), requests=Ragged.of([] for _ in rows))


def _without_padding(schedule: Schedule, trace: Trace) -> Schedule:
    """As a schedule of the trace itself, whose temporaries come first in each op. Its peak is with what is left."""
    own = np.diff(trace.temporaries.start)
    ours = (schedule.storage >= 0) | (schedule.version < 0) | (schedule.version < own[schedule.op])
    return replace(schedule.select(ours), header=dict(schedule.header) | {"trace": trace.content_hash})


def needs(trace: Trace) -> list[int]:
    """Of each op, the bytes that must be there while it runs, whatever is evicted."""
    problem = problem_of(trace)
    return [problem.bytes_of(problem.at_least(op)) + problem.inside[op] for op in range(problem.n_ops)]


@dataclass(frozen=True)
class Least:
    """Bytes without which no schedule can be: what must be there while one op runs. held: of them, by role."""

    nbytes: int
    op: str
    held: dict[str, int]


def least(trace: Trace) -> Least:
    """The least of a step. Of its ops' inputs, results and temporaries, those without another role are `of the op`."""
    problem = problem_of(trace)
    need = needs(trace)
    op = max(range(len(need)), key=need.__getitem__)
    storage = lower(trace, in_place=InPlace.COPY, pinning=Pinning.DECLARED, granule=1).storage
    held: Counter[str] = Counter({_OF_THE_OP: problem.inside[op]})
    for v in problem.at_least(op):
        role = trace.role[storage[v]]
        held[_OF_THE_OP if role in (Role.ACTIVATION, Role.TEMPORARY) else role] += problem.size[v]
    return Least(need[op], trace.name[op], {role: n for role, n in sorted(held.items(), key=lambda x: -x[1]) if n})


def too_much(least: Least, others: int, budget: int) -> str:
    """Why a budget is below the least, in one line."""
    beside = f", {human(others)} of them for others than the program" if others else ""
    return f"{least.op} takes {human(least.nbytes + others)} whatever is evicted{beside}; the budget is {human(budget)}"


def explain(schedule: Schedule) -> str:
    """Why there is no plan; "" if the schedule is one."""
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
    return schedule_of(replay, replay.run(record=True))


def _without_addresses(trace: Trace, policy: Policy, budget: int, *, segmented: bool) -> Schedule:
    """A plan of so many bytes, wherever they are. If there is none, the outcome is that it is out of memory."""
    replay = Replay(trace, policy, _ROOMY * budget, allocators.ARENA, _OPTIONS)
    assert replay.planner is not None
    replay.planner.most, replay.planner.segmented = budget, segmented
    schedule = schedule_of(replay, replay.run(record=True))
    if schedule.header["peak_bytes"] <= budget and schedule.header["planned_steps"]:
        return schedule
    return replace(schedule, header=dict(schedule.header) | {"outcome": Outcome.OOM})
