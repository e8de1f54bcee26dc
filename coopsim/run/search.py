"""A search over runs of a script: for the edge between numbers with which it trains and numbers with which it does not.

What is searched over are bytes (smallest.py), a number in the command (largest.py), ranks (ranks/fewest.py), or ratios.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from coopsim.base.progress import note
from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.run.report import Report

N = TypeVar("N", int, float)


class SearchIsOver(Exception):  # noqa: N818 (nothing is wrong)
    """No more runs are to be started."""


@dataclass
class SearchedRuns(Generic[N]):
    """The runs of a search. `run` makes one; `say` is called with each number and its report, or why there is none.

    tried: reports by number, in the order of the runs. refused: by number, the errors of runs that failed for another
    reason than memory. over: whether no more runs are to be made, asked before and after each.
    """

    run: Callable[[N], Report]
    say: Callable[[N, Report | str], None] = lambda _n, _said: None
    over: Callable[[], bool] = lambda: False
    tried: dict[N, Report] = field(default_factory=dict)
    refused: dict[N, str] = field(default_factory=dict)

    def trains(self, n: N, *, may_fail: bool = False) -> bool:
        """Run the script with a number, once, and return whether it trains (outcome "ok").

        may_fail: an error of the run counts as one that does not, instead of being raised. Raises SearchIsOver.
        """
        if n not in self.tried and n not in self.refused:
            if self.over():
                raise SearchIsOver
            try:
                self.tried[n] = self.run(n)
            except CoopsimError as e:
                if self.over():  # which killed the run
                    raise SearchIsOver from None
                if not may_fail:
                    raise
                self.refused[n] = str(e)
            self.say(n, self.tried.get(n) or self.refused[n])
        return n in self.tried and self.tried[n].outcome == "ok"

    @contextmanager
    def told_if_interrupted(self, known: Callable[[], str]) -> Iterator[None]:
        """Within the context, an interrupt has what is known so far told to the user."""
        try:
            yield
        except KeyboardInterrupt:
            note(f"so far: {known() or 'nothing is known'}")
            raise


def _middle(bad: N, good: N, _: N) -> N:
    return (bad + good) // 2


def _neighbours(bad: float, good: float) -> bool:
    return abs(good - bad) <= 1


def edge(
    trains: Callable[[N], bool],
    bad: N,
    good: N,
    between: Callable[[N, N, N], N] = _middle,
    *,
    near: Callable[[N, N], bool] = _neighbours,
) -> tuple[N, N]:
    """Narrow the gap between a number that fails and one that trains, until they are `near`, and return both.

    `between(bad, good, last)` gives the number to try, strictly between the two; `last` is the one tried before, or at
    first the one that trains.

    >>> edge(lambda n: n >= 37, 0, 100), edge(lambda n: n <= 37, 100, 0)
    ((36, 37), (38, 37))
    """
    last = good
    while not near(bad, good):
        last = between(bad, good, last)
        if trains(last):
            good = last
        else:
            bad = last
    return bad, good


def ended(said: Report | str, *, taken: bool = True) -> str:
    """Return how a run ended, in words; `taken`: with what it took of the card, if it trains."""
    if isinstance(said, str):
        return said
    more = f", {human(said.peak_device_bytes)} of the card" if taken else ""
    return f"trains{more}" if said.outcome == "ok" else "out of memory"
