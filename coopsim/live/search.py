"""Searches for schedules of a recorded step that leave some of a budget unused. Knows no torch."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from coopsim.live import schedules
from coopsim.live.host.hosting import Hosting
from coopsim.live.plan import Plan
from coopsim.live.plan_state import Candidate
from coopsim.live.signatures import Signature
from coopsim.policies import Policy
from coopsim.trace import Trace


@dataclass(frozen=True)
class Found:
    """The result of a search for a plan: a candidate, or in one line why there is none.

    too_much: no schedule can exist, as an op needs more than the budget. infeasible_margin: the least margin in bytes
    for which no schedule was found. plan: of the candidate's schedule, if it was made.
    """

    candidate: Candidate | None
    why: str = ""
    too_much: bool = False
    infeasible_margin: int | None = None
    plan: Plan | None = None


@dataclass(frozen=True)
class Search:
    """What schedules are sought for: a step of `trace`, by a policy or its name, in `limit` bytes.

    others: bytes of the limit that are not the program's. hosting: what schedules may use of the host. margins: how
    many margins are tried for one plan. ops: that the step dispatches to a GPU, 0 on the CPU. A margin is a number of
    bytes that a schedule leaves of the limit.
    """

    trace: Trace
    policy: Policy | str
    limit: int
    others: int = 0
    hosting: Hosting | None = None
    margins: int = 3
    ops: int = 0

    @property
    def room(self) -> int:
        """Bytes for the program's storages."""
        return self.limit - self.others

    def too_much(self) -> str:
        """Why no schedule can exist, in one line; "" if one may."""
        least = schedules.least(self.trace)
        return schedules.too_much(least, self.others, self.limit) if least.nbytes > self.room else ""

    def first(self, margin: int) -> Found:
        """The cheapest schedule that leaves `margin` bytes, or less where that has none; with 0, all of the room."""
        if why := self.too_much():
            return Found(None, why, too_much=True)
        found, infeasible = self.leaving(margin, 0, None) if margin else ([], None)
        if found:
            return Found(min(found, key=lambda one: one.cost), infeasible_margin=infeasible)
        return self.leaving_exactly(0)

    def leaving_exactly(self, margin: int) -> Found:
        """A schedule that leaves exactly this margin, or where it cannot, leaves it only at ops that can."""
        if self.room <= margin:
            return Found(None, "nothing is left of the budget")
        schedule = schedules.find(self.trace, self.policy, self.room - margin, self.hosting, self.ops)
        if margin and schedules.explain(schedule):
            padded = schedules.padded(self.trace, self.policy, self.room, margin, self.hosting, self.ops)
            schedule = padded or schedule
        why = schedules.explain(schedule)
        return Found(None if why else Candidate(margin, schedule), why)

    def leaving(self, margin: int, own: int, infeasible: int | None) -> tuple[list[Candidate], int | None]:
        """Schedules that leave `margin` bytes of the room, none to three; and the least margin that had none.

        One leaves them at every op. If it offloads, another only recomputes, which may fragment memory less, so that a
        smaller margin does. If it is expensive, another leaves them only where ops can. Where neither exists, smaller
        margins are tried that are still larger than `own`, the present plan's. infeasible: what is known of margins
        that have no schedule.
        """
        margins = [margin]
        while len(margins) < self.margins:
            margins.append((own + margins[-1]) // 2)
        found: list[Candidate] = []
        for each in margins:
            if each < (self.room if infeasible is None else infeasible):
                schedule = schedules.find(self.trace, self.policy, self.room - each, self.hosting, self.ops)
                if not schedules.explain(schedule):
                    found.append(Candidate(each, schedule))
                    if schedule.header.get("offloads"):
                        recomputing = schedules.find(self.trace, self.policy, self.room - each)
                        found += [] if schedules.explain(recomputing) else [Candidate(each, recomputing)]
                    break
                infeasible = each
        if found and found[0].margin == margin and found[0].cost <= schedules.CHEAP:
            return found, infeasible
        for each in margins:
            padded = schedules.padded(self.trace, self.policy, self.room, each, self.hosting, self.ops)
            if padded is not None and not schedules.explain(padded):
                return [*found, Candidate(each, padded)], infeasible
        return found, infeasible


class Wanted(Enum):
    """What a plan is sought for."""

    FIRST = "steps of a signature that has none, with a margin or less"
    ANEW = "steps of a signature, with exactly this margin"
    STORED = "another start of the program"


@dataclass(frozen=True)
class Question:
    """Asks for a plan that leaves `margin` bytes of the budget."""

    wanted: Wanted
    search: Search
    margin: int

    def run(self) -> Found:
        """Search now."""
        search = self.search
        return search.leaving_exactly(self.margin) if self.wanted is Wanted.ANEW else search.first(self.margin)


class PlanMaker(Protocol):
    """Answers questions for plans, at once or later."""

    def ask(self, signature: Signature, question: Question, /) -> Found | None:
        """The answer about a step signature (signatures.py); None: it comes later."""


class Here:
    """A PlanMaker that searches at once, while the program waits."""

    def ask(self, _signature: Signature, question: Question, /) -> Found:
        """The answer."""
        return question.run()
