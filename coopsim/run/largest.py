"""Search for the largest number, such as a batch size, with which a script trains."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.base.types import CoopsimError
from coopsim.run.report import Report
from coopsim.run.search import SearchedRuns, SearchIsOver, edge

_FASTER = 4  #: factor by which the stride grows, and by which the range is widened
MOST = 1_000_000  #: the largest number that is tried


@dataclass(frozen=True)
class Largest:
    """The result of a search. low, high: the range, as widened. tried: reports by number, in the order of the runs.

    refused: the error with which the script failed for a number outside the requested range, which ended the search;
    "" if none did.
    """

    low: int
    high: int
    tried: dict[int, Report]
    refused: str = ""

    @property
    def value(self) -> int | None:
        """The largest number that was seen to train; None if none was."""
        return max((n for n, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> int | None:
        """The smallest number that was seen to run out of memory; None if none did."""
        return min((n for n, report in self.tried.items() if report.outcome != "ok"), default=None)


class _RefusedError(Exception):
    """The script fails with a number outside the requested range."""


def search(
    runs: SearchedRuns[int],
    low: int,
    high: int,
    *,
    tolerance: float = 0.0,
    times: int = 0,
    widened: Callable[[int, int], None] = lambda _low, _high: None,
) -> Largest:
    """Find the largest number with which a script trains, assuming that it trains with all smaller ones.

    Both the number found and a larger one that fails have been run. They are neighbours, or differ by at most
    `tolerance` times the number found. If `high` trains, the range is widened to four times that, and if `low` does
    not, to a quarter of it: each at most `times` times, calling `widened(low, high)`. After a run that trains, the next
    number is where memory would be full if it continued to grow as it last did, but at least a growing stride further;
    after one that fails, half way. A CoopsimError of a run is raised for a number within the given range, and ends the
    search outside of it (`refused`). When the runs are over, what is known is returned.
    """
    asked, ends, refused = range(low, high + 1), [low, high], ""

    def trains(n: int) -> bool:
        try:
            return runs.trains(n)
        except CoopsimError as e:
            if n in asked:
                raise
            raise _RefusedError(str(e)) from None

    def widen(end: int, to: int) -> None:
        ends[end] = to
        widened(*ends)

    try:
        _search(trains, ends, runs.tried, tolerance, times, widen)
    except _RefusedError as e:
        refused = str(e)
    except SearchIsOver:
        pass
    return Largest(ends[0], ends[1], runs.tried, refused)


def _search(
    trains: Callable[[int], bool],
    ends: list[int],
    tried: dict[int, Report],
    tolerance: float,
    times: int,
    widen: Callable[[int, int], None],
) -> None:
    bad, down = ends[1] + 1, times
    while not trains(ends[0]):
        bad = ends[0]
        if bad == 1 or down == 0:
            return
        down -= 1
        widen(0, max(1, bad // _FASTER))
    good = ends[0]
    stride, grew = max(1, good // 8), (good, good)

    def between(bad: int, good: int, last: int) -> int:
        nonlocal stride, grew
        if last != good:
            stride = 1
            return (good + bad) // 2
        if good != grew[1]:
            stride, grew = _FASTER * stride, (grew[1], good)
        n = good + max(stride, _room(*grew, tried))
        return n if n < bad else (good + bad) // 2 if bad in tried else bad - 1

    def near(bad: int, good: int) -> bool:
        return bad - good <= (max(1, int(tolerance * good)) if bad in tried else 1)

    while True:
        bad, good = edge(trains, bad, good, between, near=near)
        if bad in tried or times == 0 or good == MOST:
            return
        times -= 1
        widen(1, min(_FASTER * good, MOST))
        bad = ends[1] + 1


def _room(before: int, good: int, tried: dict[int, Report]) -> int:
    """Extrapolate by how much the number can grow until memory is full; 0 if memory did not grow."""
    less, more = tried[before].peak_device_bytes, tried[good].peak_device_bytes
    if more == less:
        return 0
    return (tried[good].memory_bytes - more) * (good - before) // (more - less)
