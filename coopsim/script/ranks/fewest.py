"""The least number of cards on which a job fits."""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from coopsim.script.ranks.world import LARGEST
from coopsim.script.report import Report
from coopsim.types import CoopsimError

_FASTER = 4  #: by which the number of ranks grows until it trains


@dataclass(frozen=True)
class Fewest:
    """What was found. tried: by number of ranks, in the order in which they ran; refused: why the script failed."""

    tried: dict[int, Report]
    refused: dict[int, str]

    @property
    def value(self) -> int | None:
        """The least number of ranks that was seen to train; None if none does."""
        return min((n for n, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> int | None:
        """The largest number below it that was seen not to."""
        below = [n for n in (*self.tried, *self.refused) if self.value is None or n < self.value]
        return max(below, default=None)


def sizes(cards: int) -> list[int]:
    """The numbers of ranks to choose from: parts of a machine that are powers of two, and then full machines."""
    parts = [2**i for i in range(cards.bit_length()) if 2**i < cards]
    return parts + list(range(cards, LARGEST + 1, cards))


def search(run: Callable[[int], Report], first: Report) -> Fewest:
    """The least number with which `run` trains, if it trains with all above it; `first` is a run with some number.

    The one found and the next one below have both run. Where the script fails with a number for another reason than
    memory (its layers cannot be cut into so many parts), that number is taken not to train. Of numbers to
    try, those that powers of two divide come first, which scripts are more likely to take.
    """
    found = Fewest({first.world_size: first}, {})
    choice = sorted({*sizes(first.cards_per_node), first.world_size})
    good, bad, at = None, -1, choice.index(first.world_size)
    while True:
        if _trains(run, choice[at], found):
            good = at
        else:
            bad = at
        if good is None:
            if bad == len(choice) - 1:
                return found
            at = bisect.bisect_left(choice, min(_FASTER * choice[bad], choice[-1]))
        elif good - bad == 1:
            return found
        else:
            at = _between(choice, bad, good)


def _between(choice: list[int], bad: int, good: int) -> int:
    """The place of the number that most factors of two divide, in the middle half between two places."""
    edge = (good - bad - 1) // 4
    middle = range(bad + 1 + edge, good - edge)
    return max(middle, key=lambda i: (choice[i] & -choice[i], -abs(2 * i - good - bad)))


def _trains(run: Callable[[int], Report], size: int, found: Fewest) -> bool:
    if size not in found.tried:
        try:
            found.tried[size] = run(size)
        except CoopsimError as e:
            found.refused[size] = str(e)
            return False
    return found.tried[size].outcome == "ok"
