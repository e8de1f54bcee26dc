"""Plans for recorded steps, before any GPU: do they fit, at what cost, and how little could do? Knows no torch."""

from dataclasses import dataclass, replace

from coopsim.live import schedules
from coopsim.live.plan_file import Planned
from coopsim.live.schedules import Least
from coopsim.trace.measure import peak_bytes

_GRANULE = 512
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


def make(kind: Planned, policy: str, budget: int, others: int, *, search: bool = True) -> Made:
    """Plan a kind of step in a budget, of which `others` bytes are not the program's.

    search: for the smallest budget that has a plan, too.
    """
    least, room = schedules.least(kind.trace), budget - others - kind.less
    if least.nbytes > room:
        made = replace(kind, schedule=None, why=schedules.too_much(least, others, budget - kind.less))
    else:
        schedule = schedules.find(kind.trace, policy, room)
        why = schedules.explain(schedule)
        made = replace(kind, schedule=None if why else schedule, why=why)
    peak = peak_bytes(kind.trace, _GRANULE)
    smallest = _smallest(made, policy, least.nbytes, room, peak) if search else None
    return Made(
        made,
        peak + others,
        replace(least, nbytes=least.nbytes + others),
        smallest + others if smallest is not None else None,
    )


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
