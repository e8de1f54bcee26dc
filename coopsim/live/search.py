"""Searches for schedules of a recorded step that leave some of a budget unused. Knows no torch."""

from dataclasses import dataclass

from coopsim.live import schedules
from coopsim.live.host.hosting import Hosting
from coopsim.live.plan_state import Candidate
from coopsim.simulate.policies import Policy
from coopsim.trace import Trace


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
        least = schedules.least(self.trace)
        return schedules.too_much(least, self.others, self.limit) if least.nbytes > self.room else ""

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
        schedule = schedules.find(self.trace, self.policy, self.room - margin, self.hosting, self.ops)
        why = schedules.explain(schedule)
        found = [] if why else [Candidate(margin, schedule)]
        if margin and (why or found[0].cost > schedules.CHEAP):
            padded = schedules.padded(self.trace, self.policy, self.room, margin, self.hosting, self.ops)
            if padded is not None and not schedules.explain(padded):
                found.append(Candidate(margin, padded))
        return Found(min(found, key=lambda one: one.cost), "") if found else Found(None, why)
