"""Makes plans for recorded steps without a GPU: whether they fit, at what cost, and in how little. Knows no torch.

Steps that dispatch the same ops on the same sizes have one signature, of which one was recorded. A margin is a number
of bytes that a plan leaves of the budget, for what the allocator cannot use.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from coopsim.live import schedules
from coopsim.live.arena.place import Places, at_start, place
from coopsim.live.arena.requests import requests_of
from coopsim.live.host.hosting import Hosting
from coopsim.live.host_time import StepTime, step_time
from coopsim.live.plan import Plan
from coopsim.live.plan_file import Planned
from coopsim.live.schedules import Least
from coopsim.trace.measure import peak_bytes

_GRANULE = 512  #: bytes; allocators pad requests to a multiple of this
PLACINGS = 7  #: plans that are tried at most, until all requests of one have places in the arena
_FINE = 400  #: the second of them leaves at least the budget divided by this more, and each next one twice as much
_CLOSE = 0.02  #: of the peak, the accuracy of the smallest budget that has a plan


@dataclass(frozen=True)
class Made:
    """A step signature with its plan for a budget. Bytes are those of everything on the device.

    peak_bytes: of the step without eviction. least: what any schedule needs. least_planned_bytes: the smallest of the
    budgets tried for which a plan was found; None if there was none, or none was tried. on_gpu: where steps run.
    """

    signature: Planned
    peak_bytes: int
    least: Least
    least_planned_bytes: int | None
    on_gpu: bool

    @property
    def time(self) -> StepTime | None:
        """The predicted times of a step by the plan; None if there is none."""
        signature = self.signature
        return (
            step_time(signature.trace, signature.schedule, len(signature.op_log) * self.on_gpu)
            if signature.schedule
            else None
        )


def make(
    signature: Planned,
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
    hosting: what the plan may use of the host. on_gpu: where steps run. If there is no plan, the result's `signature`
    has no schedule, and its `why` says why.
    """
    ops = len(signature.op_log) if on_gpu else 0
    least, room = schedules.least(signature.trace), budget - others - signature.margin
    if least.nbytes > room:
        made = replace(signature, schedule=None, why=schedules.too_much(least, others, budget - signature.margin))
    elif arena:
        made = _in_place(signature, policy, budget, others, hosting, ops)
    else:
        made = _planned(signature, policy, room, hosting, ops)
    peak = peak_bytes(signature.trace, _GRANULE)
    smallest = _smallest(made, policy, least.nbytes, room, peak) if search else None
    return Made(
        made,
        peak + others,
        replace(least, nbytes=least.nbytes + others),
        smallest + others if smallest is not None else None,
        on_gpu,
    )


def _planned(signature: Planned, policy: str, room: int, hosting: Hosting | None, ops: int) -> Planned:
    schedule = schedules.find(signature.trace, policy, room, hosting, ops)
    why = schedules.explain(schedule)
    return replace(signature, schedule=None if why else schedule, why=why)


def _in_place(signature: Planned, policy: str, budget: int, others: int, hosting: Hosting | None, ops: int) -> Planned:
    """Plan with more and more margin until all requests have addresses below the budget; failing that, the lowest."""
    found: list[tuple[int, Planned]] = []
    made, op_log = signature, cast("Any", signature.op_log)
    for k in range(PLACINGS):
        made = _planned(made, policy, budget - others - made.margin, hosting, ops)
        if made.schedule is None:
            break
        plan = Plan(signature.trace, made.schedule, op_log, everything=False)
        asked = requests_of(plan)
        places = place(asked, at_start(asked, signature.trace, others), budget)
        found.append((places.needed, made))
        if places.needed <= budget:
            return made
        made = replace(made, margin=made.margin + more_to_leave(places, budget, k))
    return min(found, key=lambda one: one[0])[1] if found else made


def more_to_leave(places: Places, budget: int, k: int) -> int:
    """Bytes by which to enlarge the margin of the next plan, after the requests of plan number `k` found no places.

    They are what the lower bound exceeds the budget by, and a part of the budget that doubles with `k`, from 0.
    """
    return max(places.bound - budget, 0) + (budget << k) // _FINE


def _smallest(made: Planned, policy: str, least: int, room: int, peak: int) -> int | None:
    """The smallest budget with a plan, by bisection down to the lower bound; None if not even the peak has one."""
    known = room if made.schedule is not None and room < peak else peak if _plans(made, policy, peak) else None
    while known is not None and known - least > _CLOSE * peak:
        middle = (least + known) // 2
        if _plans(made, policy, middle):
            known = middle
        else:
            least = middle
    return known


def _plans(made: Planned, policy: str, room: int) -> bool:
    return not schedules.explain(schedules.find(made.trace, policy, room))
