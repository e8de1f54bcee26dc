"""Search for the smallest number of cards on which a job fits."""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from coopsim.run.ranks.world import LARGEST
from coopsim.run.report import Report
from coopsim.run.search import SearchedRuns, edge

_FASTER = 4  #: factor by which the number of ranks grows until the job trains


@dataclass(frozen=True)
class Fewest:
    """The result of a search. tried: reports by number of ranks, in the order of the runs.

    refused: by number of ranks, the errors of runs that failed for another reason than memory.
    """

    tried: dict[int, Report]
    refused: dict[int, str]

    @property
    def value(self) -> int | None:
        """The smallest number of ranks that was seen to train; None if none was."""
        return min((n for n, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> int | None:
        """The largest number of ranks below `value` that was seen to fail; None if none did."""
        below = [n for n in (*self.tried, *self.refused) if self.value is None or n < self.value]
        return max(below, default=None)


def sizes(cards: int) -> list[int]:
    """Return the numbers of ranks to try, ascending, where a machine has `cards` cards: at most LARGEST.

    They are the powers of two below `cards`, and then the multiples of `cards`: full machines.
    """
    parts = [2**i for i in range(cards.bit_length()) if 2**i < cards]
    return parts + list(range(cards, LARGEST + 1, cards))


def search(runs: SearchedRuns[int], first: Report) -> Fewest:
    """Find the smallest number of ranks with which a job trains, assuming that it trains with all larger ones.

    `first` is the report of a run with some number. Both the number found and the next smaller one (`sizes`) have been
    run. A number for which the script fails for another reason than memory, as when its layers cannot be divided by it,
    counts as one that does not train.
    """
    runs.tried[first.world_size] = first
    narrow(lambda size: runs.trains(size, may_fail=True), first)
    return Fewest(runs.tried, runs.refused)


def narrow(trains: Callable[[int], bool], first: Report) -> None:
    """Call `trains` with numbers of ranks, from that of the report `first` on, until the smallest that does is known.

    Numbers with many factors of two are tried first, as scripts are more likely to support them.
    """
    choice = sorted({*sizes(first.cards_per_node), first.world_size})
    bad, at = -1, choice.index(first.world_size)
    while not trains(choice[at]):
        bad = at
        if bad == len(choice) - 1:
            return
        at = bisect.bisect_left(choice, min(_FASTER * choice[bad], choice[-1]))
    edge(lambda i: trains(choice[i]), bad, at, lambda bad, good, _: _between(choice, bad, good))


def _between(choice: list[int], bad: int, good: int) -> int:
    """Return the index of the number with most factors of two in the middle half between two indices."""
    edge = (good - bad - 1) // 4
    middle = range(bad + 1 + edge, good - edge)
    return max(middle, key=lambda i: (choice[i] & -choice[i], -abs(2 * i - good - bad)))
