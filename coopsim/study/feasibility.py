"""Which budgets are safe, from the outcomes at many: that a budget fits does not say that larger ones do."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from coopsim.base.types import Outcome


class Tried(NamedTuple):
    """One budget, and how the replay ended."""

    budget_bytes: int
    memory_ratio: float
    outcome: str


@dataclass(frozen=True)
class FailingRange:
    """Neighbouring budgets that fail although a smaller one fits: the least and the greatest of them, both included."""

    least: Tried
    greatest: Tried
    outcomes: tuple[str, ...]  #: that occur
    points: int


@dataclass(frozen=True)
class Feasibility:
    """What many budgets say of one setting. A budget that was not tried may differ from its neighbours."""

    points: int
    smallest: Tried | None  #: that fits at all
    safe: Tried | None  #: the smallest that fits and all larger ones with it; None if the largest does not fit
    failing: tuple[FailingRange, ...]  #: above the smallest, smallest budgets first

    @property
    def no_safe(self) -> str:
        """Why there is no safe budget, in words; empty if there is one."""
        if self.safe is not None:
            return ""
        return "never fits" if self.smallest is None else "largest fails"


def feasibility(tried: Iterable[Tried]) -> Feasibility:
    """The smallest budgets and the failing ranges above them. Budgets in any order.

    >>> found = feasibility(Tried(b, b / 10, "ok" if b in (4, 6, 7) else "oom") for b in range(3, 8))
    >>> found.smallest.budget_bytes, found.safe.budget_bytes, len(found.failing)
    (4, 6, 1)
    """
    points = sorted(tried)
    fits = [p for p in points if p.outcome == Outcome.OK]
    runs = [(ok, list(run)) for ok, run in groupby(points, lambda p: p.outcome == Outcome.OK)]
    failing = tuple(
        FailingRange(run[0], run[-1], tuple(sorted({p.outcome for p in run})), len(run))
        for ok, run in runs[1:]
        if not ok
    )
    safe = runs[-1][1][0] if runs and runs[-1][0] else None
    return Feasibility(len(points), fits[0] if fits else None, safe, failing)
