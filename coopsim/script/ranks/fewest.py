"""The least number of cards on which a job fits."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.script.ranks.world import LARGEST
from coopsim.script.report import Report
from coopsim.types import CoopsimError


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


def sizes(per_node: int) -> list[int]:
    """The numbers of ranks to choose from: parts of a node that are powers of two, and then full nodes."""
    parts = [2**i for i in range(per_node.bit_length()) if 2**i < per_node]
    return parts + list(range(per_node, LARGEST + 1, per_node))


def search(run: Callable[[int], Report], first: Report) -> Fewest:
    """The least number with which `run` trains, if it trains with all above it; `first` is a run with some number.

    The one found and the next one below have both run. Where the script fails with a number for another reason than
    memory (its layers cannot be cut into so many parts), that number is taken not to train.
    """
    found = Fewest({first.world_size: first}, {})
    choice = sizes(first.ranks_per_node)
    good, bad, at = None, -1, choice.index(first.world_size)
    while True:
        if _trains(run, choice[at], found):
            good = at
        else:
            bad = at
        if good is None:
            if bad == len(choice) - 1:
                return found
            at = min(2 * bad + 1, len(choice) - 1)
        elif good - bad == 1:
            return found
        else:
            at = good // 2 if bad < 0 else (good + bad) // 2


def _trains(run: Callable[[int], Report], size: int, found: Fewest) -> bool:
    if size not in found.tried:
        try:
            found.tried[size] = run(size)
        except CoopsimError as e:
            found.refused[size] = str(e)
            return False
    return found.tried[size].outcome == "ok"
