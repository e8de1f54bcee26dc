"""The plan of a step signature: none, or one on trial, validated, or the last. Knows no torch.

A signature stands for all steps that dispatch the same ops on the same sizes. A margin is a number of bytes that a plan
leaves of the budget. States never change; `Planning` alone moves a signature from one to the next.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from coopsim.live.plan import Plan
from coopsim.trace.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """A schedule that leaves `margin` bytes of the budget unused."""

    margin: int
    schedule: Schedule

    @property
    def cost(self) -> float:
        """Cost of a step by the schedule, as a multiple of a step without recomputation; 0.0 if it is not known."""
        return self.schedule.overhead or 0.0


Chosen = tuple[Candidate, Plan]  #: a schedule, and its plan


@dataclass(frozen=True)
class Failure:
    """A plan by which a step took `excess` bytes more than the budget, or ran out of memory (`ran_out`).

    With an excess of 0 its steps kept to the budget, and were never steady: the latest one gave back the allocator's
    cache `retries` times.
    """

    candidate: Candidate
    ran_out: bool = False
    excess: int = 0
    retries: int = 0


@dataclass(frozen=True)
class NoPlan:
    """No step goes by a plan. why: why there is none, in one line; "" if none was sought.

    candidate: a schedule that no step goes by yet, of a plan file or for another start. stays: it was the last.
    """

    why: str = ""
    candidate: Candidate | None = None
    stays: bool = False
    plan: ClassVar[None] = None
    validated: ClassVar[bool] = False
    kept: ClassVar[int] = 0
    allocating: ClassVar[int] = 0

    @property
    def schedule(self) -> Schedule | None:
        """That of the candidate; None if there is none."""
        return self.candidate.schedule if self.candidate is not None else None

    @property
    def margin(self) -> int:
        """What it leaves of the budget, in bytes; 0 without one."""
        return self.candidate.margin if self.candidate is not None else 0


@dataclass(frozen=True)
class Followed:
    """Steps go by `plan`, which was made from the schedule of `candidate`.

    tried: plans that did not do well. kept: steps that kept to the budget and were steady, one after the other.
    allocating: steps since then that took memory from the device or gave it back, or exceeded the budget for good.
    """

    candidate: Candidate
    plan: Plan
    tried: tuple[Failure, ...] = ()
    kept: int = field(default=0, kw_only=True)
    allocating: int = field(default=0, kw_only=True)
    validated: bool = field(default=False, kw_only=True)
    why: ClassVar[str] = ""
    stays: ClassVar[bool] = False

    @property
    def schedule(self) -> Schedule:
        """The schedule that steps go by."""
        return self.candidate.schedule

    @property
    def margin(self) -> int:
        """Bytes of the budget that the schedule leaves unused."""
        return self.candidate.margin

    def keep(self, enough: int) -> Self:
        """A step kept to the budget and was steady; what steps took before `enough` such steps was to warm up."""
        kept = self.kept + 1
        return replace(self, kept=kept, allocating=0 if kept >= enough else self.allocating)

    def allocate(self) -> Self:
        """A step took memory from the device or gave it back, or exceeded the budget where no other plan is sought."""
        return replace(self, kept=0, allocating=self.allocating + 1)

    def validate(self) -> "Valid | Last":
        """Enough steps have kept to the budget."""
        return Valid(self.candidate, self.plan, kept=self.kept, allocating=self.allocating)

    def finish(self) -> "Last":
        """No other plan is left to try: steps go on by this one."""
        kept, allocating, validated = self.kept, self.allocating, self.validated
        return Last(self.candidate, self.plan, kept=kept, allocating=allocating, validated=validated)


@dataclass(frozen=True)
class OnTrial(Followed):
    """Steps have yet to show that they keep to the budget by the plan, and are steady. Else another takes its place."""


@dataclass(frozen=True)
class Valid(Followed):
    """Enough steps have kept to the budget by the plan. If later ones do not, or are not steady, another follows."""

    validated: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Last(Followed):
    """The plan stays, whatever its steps take. validated: enough steps have shown what they take."""

    stays: ClassVar[bool] = True

    def validate(self) -> "Last":
        """Enough steps have shown what they take."""
        return replace(self, validated=True)


PlanState = NoPlan | OnTrial | Valid | Last
