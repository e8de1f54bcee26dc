"""Makes plans for recorded steps without a GPU: whether they fit, at what cost, and in how little. Knows no torch.

Steps that dispatch the same ops on the same sizes have one signature, of which one was recorded. A margin is a number
of bytes that a plan leaves of the budget, for what the allocator cannot use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coopsim.live.arena.place import place, stays
from coopsim.live.arena.requests import requests_of
from coopsim.live.host import Hosting, StepTime, step_time
from coopsim.live.ladder import margins, placed
from coopsim.live.plan import Plan
from coopsim.live.schedules import Least, Search, least
from coopsim.live.signatures import Candidate, PlanState, Signature

_CLOSE = 0.02  #: of the peak, the accuracy of the smallest budget that has a plan


@dataclass(frozen=True)
class Made:
    """A step signature with its plan for a budget. Bytes are those of everything on the device.

    peak_bytes: of the step without eviction. least: what any schedule needs. least_planned_bytes: the smallest of the
    budgets tried for which a plan was found; None if there was none, or none was tried. on_gpu: where steps run.
    """

    signature: Signature
    peak_bytes: int
    least: Least
    least_planned_bytes: int | None
    on_gpu: bool

    @property
    def time(self) -> StepTime | None:
        """The predicted times of a step by the plan; None if there is none."""
        signature, schedule = self.signature, self.signature.state.schedule
        ops = len(signature.op_log) * self.on_gpu
        return step_time(signature.trace, schedule, ops) if schedule is not None else None


def make(
    signature: Signature,
    policy: str,
    budget: int,
    others: int,
    *,
    search: bool = True,
    arena: bool = False,
    hosting: Hosting | None = None,
    on_gpu: bool = True,
) -> Made:
    """Plan a step signature for a budget in bytes, of which `others` bytes are not the program's (workspaces and such).

    search: look for the smallest budget that has a plan, too. arena: all requests need addresses within the budget.
    hosting: what the plan may use of the host. on_gpu: where steps run. The state of the result's signature has the
    schedule, or says why there is none.
    """
    ops, margin = (len(signature.op_log), margins(budget)[0]) if on_gpu else (0, 0)
    seek = Search(signature.trace, policy, budget, others, hosting, ops, margin)
    found = at_start(signature.op_log, seek) if arena else seek.first()
    state = PlanState(found) if isinstance(found, str) else PlanState(candidate=found)
    needs, made = least(signature.trace), replace(signature, state=state)
    smallest = _smallest(made, policy, needs.nbytes, seek.room) if search else None
    return Made(
        made,
        signature.peak_bytes + others,
        replace(needs, nbytes=needs.nbytes + others),
        smallest + others if smallest is not None else None,
        on_gpu,
    )


def at_start(op_log: Sequence[Any], search: Search) -> Candidate | str:
    """A schedule of a step whose requests have addresses in an arena that is still empty, or one that needs least.

    If there is none, why. op_log: the step's ops (plan.Entry).
    """

    def needed(candidate: Candidate) -> int:
        asked = requests_of(Plan(search.trace, candidate.schedule, op_log))
        resting = ((0, stays(asked, search.trace, search.others)),)  # as one block
        return place(asked, resting, search.limit).needed

    return search.too_much() or placed(search, needed)


def _smallest(made: Signature, policy: str, least_bytes: int, room: int) -> int | None:
    """The smallest budget with a plan, by bisection down to the lower bound; None if not even the peak has one."""
    peak = made.peak_bytes
    known = room if made.state.schedule is not None and room < peak else peak if _plans(made, policy, peak) else None
    while known is not None and known - least_bytes > _CLOSE * peak:
        middle = (least_bytes + known) // 2
        if _plans(made, policy, middle):
            known = middle
        else:
            least_bytes = middle
    return known


def _plans(made: Signature, policy: str, room: int) -> bool:
    return isinstance(Search(made.trace, policy, room).leaving(0), Candidate)
