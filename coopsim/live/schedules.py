"""The schedule of a recorded step in a budget. Knows no torch.

Addresses are the allocator's own to choose, so one that fits without any counts, too.
"""

from coopsim import allocators, policies
from coopsim.optimum.problem import problem_of
from coopsim.options import ReplayOptions
from coopsim.policies import Policy
from coopsim.replay.once import Replay
from coopsim.replay.result import schedule_of
from coopsim.schedule import Schedule
from coopsim.trace import Trace
from coopsim.types import Outcome

_OPTIONS = ReplayOptions(steps=1)
_ROOMY = 4  #: times the budget: an arena in which addresses are always found


def find(trace: Trace, policy: Policy | str, budget: int) -> Schedule:
    """The first that runs to its end: in an arena, by a plan that has no addresses, in a counter. Else the arena's."""
    policy = policies.find(policy) if isinstance(policy, str) else policy
    first = _schedule(trace, policy, budget, "arena")
    fits = first.header["outcome"] == Outcome.OK
    if fits and (not policy.plans or first.header["planned_steps"]):
        return first
    if policy.plans:
        planned = _without_addresses(trace, policy, budget)
        if planned is not None:
            return planned
    if fits:
        return first
    counted = _schedule(trace, policy, budget, "counter")
    return counted if counted.header["outcome"] == Outcome.OK else first


def least(trace: Trace) -> tuple[int, str]:
    """Bytes without which no schedule can be: what must be there while one op runs; and the name of that op."""
    problem = problem_of(trace)
    needs = [problem.bytes_of(problem.at_least(op)) + problem.inside[op] for op in range(problem.n_ops)]
    op = max(range(len(needs)), key=needs.__getitem__)
    return needs[op], trace.name[op]


def _schedule(trace: Trace, policy: Policy, budget: int, allocator: str) -> Schedule:
    replay = Replay(trace, policy, budget, allocators.find(allocator), _OPTIONS)
    return schedule_of(replay, replay.run(record=True))


def _without_addresses(trace: Trace, policy: Policy, budget: int) -> Schedule | None:
    """A plan of so many bytes, wherever they are; None if there is none."""
    replay = Replay(trace, policy, _ROOMY * budget, allocators.ARENA, _OPTIONS)
    assert replay.planner is not None
    replay.planner.most = budget
    schedule = schedule_of(replay, replay.run(record=True))
    kept = schedule.header["peak_bytes"] <= budget and schedule.header["planned_steps"] > 0
    return schedule if schedule.header["outcome"] == Outcome.OK and kept else None
