"""Plans for recorded steps, before any GPU: do they fit, at what cost, and how little could do? Knows no torch."""

from dataclasses import dataclass, replace
from typing import Any, cast

from coopsim.live import schedules
from coopsim.live.arena.place import Places, at_start, place
from coopsim.live.arena.requests import requests_of
from coopsim.live.plan import Plan
from coopsim.live.plan_file import Planned
from coopsim.live.schedules import Least
from coopsim.trace.measure import peak_bytes

_GRANULE = 512
PLACINGS = 7  #: plans that are made until one is found that has places for all in the arena
_FINE = 400  #: of the budget, the part that the second of them has less at least, and twice as much each time
_CLOSE = 0.02  #: of the peak: as near is the least budget with a plan known


@dataclass(frozen=True)
class Made:
    """What is known of a kind of step in a budget. Bytes are of all that is on the device.

    least: what any schedule needs. least_planned_bytes: the smallest of the budgets tried that has a plan; None: none
    has, or none was tried.
    """

    kind: Planned
    peak_bytes: int
    least: Least
    least_planned_bytes: int | None

    @property
    def predicted_overhead(self) -> float | None:
        """Cost of the plan over that without recomputation; None: there is no plan."""
        return self.kind.schedule.overhead if self.kind.schedule is not None else None


def make(kind: Planned, policy: str, budget: int, others: int, *, search: bool = True, arena: bool = False) -> Made:
    """Plan a kind of step in a budget, of which `others` bytes are not the program's.

    search: for the smallest budget that has a plan, too. arena: all its requests are to have places in one.
    """
    least, room = schedules.least(kind.trace), budget - others - kind.margin
    if least.nbytes > room:
        made = replace(kind, schedule=None, why=schedules.too_much(least, others, budget - kind.margin))
    elif arena:
        made = _in_place(kind, policy, budget, others)
    else:
        made = _planned(kind, policy, room)
    peak = peak_bytes(kind.trace, _GRANULE)
    smallest = _smallest(made, policy, least.nbytes, room, peak) if search else None
    return Made(
        made,
        peak + others,
        replace(least, nbytes=least.nbytes + others),
        smallest + others if smallest is not None else None,
    )


def _planned(kind: Planned, policy: str, room: int) -> Planned:
    schedule = schedules.find(kind.trace, policy, room)
    why = schedules.explain(schedule)
    return replace(kind, schedule=None if why else schedule, why=why)


def _in_place(kind: Planned, policy: str, budget: int, others: int) -> Planned:
    """Of some plans that leave more and more of the budget, the first with places for all; else the lowest."""
    found: list[tuple[int, Planned]] = []
    made, tape = kind, cast("Any", kind.tape)
    for k in range(PLACINGS):
        made = _planned(made, policy, budget - others - made.margin)
        if made.schedule is None:
            break
        plan = Plan(kind.trace, made.schedule, tape, everything=False)
        asked = requests_of(plan)
        places = place(asked, at_start(asked, kind.trace, others), budget)
        found.append((places.needed, made))
        if places.needed <= budget:
            return made
        made = replace(made, margin=made.margin + more_to_leave(places, budget, k))
    return min(found, key=lambda one: one[0])[1] if found else made


def more_to_leave(places: Places, budget: int, k: int) -> int:
    """Bytes that the next plan is to leave, after the k-th for which no places were found."""
    return max(places.bound - budget, 0) + (budget << k) // _FINE


def _smallest(made: Planned, policy: str, least: int, room: int, peak: int) -> int | None:
    """By halving what lies between the bound and the smallest budget that is known to do."""
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
