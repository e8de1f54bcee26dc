"""The plan of one step signature, and what its steps have shown about it. Knows no torch.

A signature stands for all steps that dispatch the same ops on the same sizes. A margin is a number of bytes that a plan
leaves of the budget.
"""

from dataclasses import dataclass, field

from coopsim.live.plan import Plan
from coopsim.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """A schedule that leaves `margin` bytes of the budget unused."""

    margin: int
    schedule: Schedule

    @property
    def cost(self) -> float:
        """Cost of a step by the schedule, as a multiple of a step without recomputation; 0.0 if it is not known."""
        return self.schedule.overhead or 0.0


@dataclass(frozen=True)
class Failure:
    """A plan by which a step took `excess` bytes more than the budget, or ran out of memory (`ran_out`).

    With an excess of 0 its steps kept to the budget, and were never steady: the latest one gave back the allocator's
    cache `retries` times.
    """

    ran_out: bool
    excess: int
    candidate: Candidate
    retries: int = 0


@dataclass(eq=False)
class PlanState:
    """*Unplanned* until `adopt` puts a schedule on trial; `clear` makes it so again, and `refuse` says why.

    On trial, `keep` counts the steps that kept to the budget until `validate` makes the plan *validated*; `allocate`
    counts those that kept to it and were not steady, and begins anew; `fail` records a step that did not keep to it, or
    steps that do not become steady, after which another schedule is adopted; `finish` ends that, and the plan stays as
    it is. A validated plan goes on trial again, if its steps are no longer steady.
    """

    schedule: Schedule | None = None
    plan: Plan | None = None  #: the schedule as steps follow it; set by `follow`, after each `adopt`
    margin: int = 0  #: bytes of the budget that the plan leaves unused
    why: str = ""  #: why there is no plan; "" if there is one
    validated: bool = False
    kept: int = 0  #: steps by this plan, one after the other, that kept to the budget and were steady
    allocating: int = 0  #: steps that called the device for memory, or found none, since the latest that were steady
    looked_ahead: bool = False  #: whether places for the following steps were checked once (arena only)
    repairs: int = 0  #: how often a step called for another plan
    finished: bool = False  #: whether the search for a better plan is over
    infeasible_margin: int | None = None  #: the least margin so far for which no schedule was found
    failures: list[Failure] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)  #: schedules found of which no step has failed

    @property
    def candidate(self) -> Candidate:
        """The schedule that is followed, with its margin. The caller makes sure that there is one."""
        assert self.schedule is not None
        return Candidate(self.margin, self.schedule)

    def adopt(self, candidate: Candidate) -> None:
        """Put a schedule on trial: steps that keep to the budget are counted from 0 again. `follow` has to be next."""
        self.store(candidate)
        self.validated, self.kept, self.allocating, self.why = False, 0, 0, ""

    def store(self, candidate: Candidate) -> None:
        """Have a schedule that is not on trial: for another start of the program."""
        self.schedule, self.margin = candidate.schedule, candidate.margin

    def reprice(self, schedule: Schedule) -> None:
        """Take the schedule that steps go by with other costs of its ops."""
        self.schedule = schedule

    def leave(self, margin: int) -> None:
        """Set the bytes of the budget that the next plan leaves unused."""
        self.margin = margin

    def found(self, candidates: list[Candidate], infeasible_margin: int | None) -> None:
        """Note the schedules that wait for a trial, and the least margin for which there is none."""
        self.candidates, self.infeasible_margin = candidates, infeasible_margin

    def looks_ahead(self) -> bool:
        """Whether places for the following steps are still to be checked; they are from now on."""
        due, self.looked_ahead = not self.looked_ahead, True
        return due

    def repair(self) -> None:
        """Note that a step calls for another plan."""
        self.repairs += 1

    def follow(self, plan: Plan) -> None:
        """Let steps go by this plan, which was made from the schedule."""
        self.plan = plan

    def clear(self) -> None:
        """Drop the plan and the results of its trials, before planning anew; the margin stays."""
        self.plan = self.schedule = self.infeasible_margin = None
        self.failures, self.candidates = [], []

    def restart(self) -> None:
        """Let plans be tried again, as the budget is another one."""
        self.finished = self.looked_ahead = False
        self.repairs = 0

    def refuse(self, why: str) -> None:
        """Note that no plan was found, and why, in one line; an earlier plan is dropped by `clear`."""
        self.why = why

    def keep(self, enough: int) -> bool:
        """Note that a step by the plan kept to the budget and was steady. True if `enough` of them in a row were.

        What steps took of the device before these was to warm up.
        """
        self.kept += 1
        if self.kept >= enough:
            self.allocating = 0
        return self.kept >= enough

    def allocate(self) -> None:
        """Note that a step by the plan took memory from the device or gave it back, or found none and never will."""
        self.kept, self.allocating = 0, self.allocating + 1

    def validate(self) -> None:
        """Note that the plan has been seen to keep to the budget, and drop what else was tried or waits to be."""
        self.validated = True
        self.failures, self.candidates = [], []

    def fail(self, excess: int, *, ran_out: bool = False, retries: int = 0) -> None:
        """Note that steps by the plan exceeded the budget by `excess` bytes, ran out of memory, or were never steady.

        In the last two cases by how much is unknown, and candidates with smaller margins are not worth a step.
        """
        self.failures.append(Failure(ran_out, excess, self.candidate, retries))
        if ran_out or retries:
            self.candidates = [other for other in self.candidates if other.margin > self.margin]

    def finish(self) -> None:
        """Let no other plan be tried from now on."""
        self.finished = True

    def restore(self, candidate: Candidate) -> None:
        """Go back to a schedule that was followed before, as no other was found. What it has validated still counts."""
        self.store(candidate)
        self.why = ""
        self.finish()
