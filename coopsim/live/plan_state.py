"""The states of a step signature's plan, from none to one that stays as it is. Knows no torch.

A signature stands for all steps that dispatch the same ops on the same sizes. A margin is a number of bytes that a plan
leaves of the budget. States never change: each transition is a method of the states that it begins at, and returns the
next one. `Planning` alone moves a signature from one to the next (docs/live-internals.md has the table).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

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


@dataclass(frozen=True)
class PlanTrials:
    """What is known of the schedules of one signature, while a better one is sought.

    replans: how often steps called for another plan. failures: since a plan was validated. waiting: schedules found of
    which no step has failed. infeasible_margin: the least margin so far for which no schedule was found.
    """

    replans: int = 0
    failures: tuple[Failure, ...] = ()
    waiting: tuple[Candidate, ...] = ()
    infeasible_margin: int | None = None

    def replan(self) -> "PlanTrials":
        """Steps call for another plan."""
        return replace(self, replans=self.replans + 1)

    def fail(self, failure: Failure) -> "PlanTrials":
        """Steps by a plan failed. If by how much is unknown, schedules with smaller margins are not worth a step."""
        unknown, own = failure.ran_out or failure.retries, failure.candidate.margin
        waiting = tuple(other for other in self.waiting if other.margin > own) if unknown else self.waiting
        return replace(self, failures=(*self.failures, failure), waiting=waiting)

    def find(self, waiting: tuple[Candidate, ...], infeasible_margin: int | None) -> "PlanTrials":
        """These schedules wait for a trial, and from this margin on there are none."""
        return replace(self, waiting=waiting, infeasible_margin=infeasible_margin)

    def forget(self) -> "PlanTrials":
        """A plan is validated: what else was tried, or waits, does not matter any more."""
        return replace(self, failures=(), waiting=())


@dataclass(frozen=True, kw_only=True)
class Unfollowed:
    """No step follows a plan. margin: what the schedule leaves, or the next one that is sought."""

    margin: int = 0
    plan: ClassVar[None] = None
    validated: ClassVar[bool] = False
    has_kept: ClassVar[bool] = False
    allocating: ClassVar[int] = 0

    def ask(self) -> "Asked":
        """The background makes the first plan."""
        return Asked(margin=self.margin)

    def refuse(self, why: str) -> "Unplanned":
        """No plan was found; `why` says why, in one line."""
        return Unplanned(margin=self.margin, why=why)

    def store(self, candidate: Candidate) -> "Stored":
        """A schedule was found for another start of the program."""
        return Stored(margin=candidate.margin, schedule=candidate.schedule)

    def try_out(self, candidate: Candidate, plan: Plan, infeasible_margin: int | None = None) -> "OnTrial":
        """A plan was found, and steps will show whether they keep to the budget by it."""
        return OnTrial(candidate, plan, PlanTrials(infeasible_margin=infeasible_margin))

    def drop(self) -> "Unplanned":
        """The budget is another one, and a plan is sought with the same margin."""
        return Unplanned(margin=self.margin)


@dataclass(frozen=True, kw_only=True)
class Unplanned(Unfollowed):
    """No plan. why: why there is none, in one line; "" if none was sought."""

    why: str = ""
    schedule: ClassVar[None] = None
    finished: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Asked(Unfollowed):
    """The background is making the first plan; steps go without it."""

    why: ClassVar[str] = "its plan is still being made"
    schedule: ClassVar[None] = None
    finished: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Stored(Unfollowed):
    """A schedule that no step goes by, of a plan file or for another start. finished: no better one is to be sought."""

    schedule: Schedule
    finished: bool = False
    why: ClassVar[str] = ""

    @property
    def candidate(self) -> Candidate:
        """The schedule, with its margin."""
        return Candidate(self.margin, self.schedule)

    def follow(self, candidate: Candidate, plan: Plan) -> "OnTrial | Finished":
        """Steps go by the schedule from now on, or by `candidate` in its place."""
        return Finished(candidate, plan) if self.finished else OnTrial(candidate, plan)


@dataclass(frozen=True)
class Followed:
    """Steps go by `plan`, which was made from the schedule of `candidate`.

    kept: steps that kept to the budget and were steady, one after the other. allocating: steps since then that took
    memory from the device or gave it back, or exceeded the budget for good.
    """

    candidate: Candidate
    plan: Plan
    kept: int = field(default=0, kw_only=True)
    allocating: int = field(default=0, kw_only=True)
    why: ClassVar[str] = ""

    @property
    def schedule(self) -> Schedule:
        """The schedule that steps go by."""
        return self.candidate.schedule

    @property
    def margin(self) -> int:
        """Bytes of the budget that the schedule leaves unused."""
        return self.candidate.margin

    def drop(self) -> Unplanned:
        """The budget is another one, and a plan is sought with the same margin."""
        return Unplanned(margin=self.margin)

    def keep(self, enough: int) -> Self:
        """A step kept to the budget and was steady; what steps took before `enough` such steps was to warm up."""
        kept = self.kept + 1
        return replace(self, kept=kept, allocating=0 if kept >= enough else self.allocating)

    def allocate(self) -> Self:
        """A step took memory from the device or gave it back, or exceeded the budget where no other plan is sought."""
        return replace(self, kept=0, allocating=self.allocating + 1)

    def remake(self, plan: Plan) -> Self:
        """The plan was made anew from the same schedule."""
        return replace(self, plan=plan)

    def refuse(self, why: str) -> Unplanned:
        """Steps cannot go by the plan any more, and no other was found; `why` says why, in one line."""
        return Unplanned(margin=self.margin, why=why)


@dataclass(frozen=True)
class Open(Followed):
    """Another plan takes the place of this one if steps do not do well by it. tried: what is known of others."""

    tried: PlanTrials = PlanTrials()
    validated: ClassVar[bool]
    finished: ClassVar[bool] = False

    def improve(self, candidate: Candidate, plan: Plan) -> "OnTrial":
        """A better plan was found, and is on trial."""
        return OnTrial(candidate, plan, self.tried)

    def retry(self, candidate: Candidate, plan: Plan, tried: PlanTrials) -> "OnTrial":
        """Steps exceeded the budget, or were not steady: another plan is on trial."""
        return OnTrial(candidate, plan, tried)

    def go_back(self, candidate: Candidate, plan: Plan) -> "Finished":
        """They did, and no other plan is left to try: steps go by an earlier one from now on."""
        return Finished(candidate, plan)

    def finish(self) -> "Finished":
        """They did, and no other plan is left to try: steps go on by this one."""
        return Finished(self.candidate, self.plan, self.validated, kept=self.kept, allocating=self.allocating)


@dataclass(frozen=True)
class OnTrial(Open):
    """Steps have yet to show that they keep to the budget by the plan, and are steady."""

    validated: ClassVar[bool] = False

    @property
    def has_kept(self) -> bool:
        """Whether the latest step by the plan kept to the budget and was steady."""
        return self.kept > 0

    def validate(self, plan: Plan) -> "Validated":
        """Enough steps have kept to the budget. plan: of the same schedule, as steps follow a validated one."""
        return Validated(self.candidate, plan, self.tried.forget(), kept=self.kept, allocating=self.allocating)


@dataclass(frozen=True)
class Validated(Open):
    """Enough steps have kept to the budget by the plan. It is replanned if later ones do not, or are not steady."""

    validated: ClassVar[bool] = True
    has_kept: ClassVar[bool] = True


@dataclass(frozen=True)
class Finished(Followed):
    """The plan stays, whatever its steps take. validated: whether enough of them have kept to the budget."""

    validated: bool = False
    finished: ClassVar[bool] = True

    @property
    def has_kept(self) -> bool:
        """Whether a step by the plan kept to the budget."""
        return self.kept > 0 or self.validated

    def validate(self, plan: Plan) -> "Finished":
        """Enough steps have kept to the budget. plan: of the same schedule, as steps follow a validated one."""
        return replace(self, plan=plan, validated=True)

    def improve(self, candidate: Candidate, plan: Plan) -> "Finished":
        """A better plan was found, and stays."""
        return Finished(candidate, plan)


Judged = OnTrial | Validated | Finished  #: the states that are Followed
PlanState = Unplanned | Asked | Stored | OnTrial | Validated | Finished
