"""At which steps something happens: every how many."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

FIRST = 3  #: the step after which every step is like later ones: state that is made lazily is there


@dataclass(frozen=True)
class Every:
    """At step `first`, and every `period` steps from there. `assumed`: it was seen once, the period is a guess."""

    first: int
    period: int
    assumed: bool = False

    def at(self, step: int) -> bool:
        """Whether it happens at that step, numbered from 1."""
        return step >= self.first and (step - self.first) % self.period == 0


def every(seen: Sequence[int], begin: int, end: int, least: int = 2) -> Every | None:
    """How something recurs that happened at the steps `seen`, of those from `begin` to `end`; None if irregularly.

    `least`: how often it must have been seen. What happened once is taken to happen every that many steps.
    """
    if len(seen) < max(least, 1):
        return None
    if len(seen) == 1:
        return Every(seen[0], max(seen[0] - 1, 1), assumed=True)
    period = seen[1] - seen[0]
    regular = all(b - a == period for a, b in itertools.pairwise(seen))
    return Every(seen[0], period) if regular and seen[0] - period < begin and seen[-1] + period > end else None
