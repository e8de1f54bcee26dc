"""The largest number, such as a batch size, with which a script trains."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.script.report import Report
from coopsim.types import CoopsimError

_FASTER = 4  #: by which a stride grows, and a range
MOST = 1_000_000  #: the largest number there is


@dataclass(frozen=True)
class Largest:
    """What was found. low, high: the range, as it was widened. tried: by number, in the order in which they ran.

    refused: why a number outside the range that was asked for ended the search, if one did: the script failed with it.
    """

    low: int
    high: int
    tried: dict[int, Report]
    refused: str = ""

    @property
    def value(self) -> int | None:
        """The largest that was seen to train; None if the lowest does not."""
        return max((n for n, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> int | None:
        """The smallest that was seen to fail; None if none did."""
        return min((n for n, report in self.tried.items() if report.outcome != "ok"), default=None)


class _RefusedError(Exception):
    """The script fails with a number that nobody has asked for."""


def search(
    run: Callable[[int], Report],
    low: int,
    high: int,
    tried: dict[int, Report],
    *,
    tolerance: float = 0.0,
    times: int = 0,
    widened: Callable[[int, int], None] = lambda _low, _high: None,
) -> Largest:
    """The largest number with which `run` trains, if it trains with all below it.

    The one found and the one that fails have both run, and lie no further apart than `tolerance` times the one found,
    or are neighbours. If `high` trains the range is widened to four times that, if `low` does not to a quarter of it:
    each at most `times` times, and `widened` is called. After a run that trains, the next to try is where memory would
    be full if it grew on as it grew last, and at least a stride further, which grows; after one that does not, half
    way. tried: gets every run, for who interrupts. A CoopsimError of `run` outside the given range ends the search.
    """
    asked = range(low, high + 1)
    ends = [low, high]

    def trains(n: int) -> bool:
        try:
            tried[n] = run(n)
        except CoopsimError as e:
            if n in asked:
                raise
            raise _RefusedError(str(e)) from None
        return tried[n].outcome == "ok"

    def widen(end: int, to: int) -> None:
        ends[end] = to
        widened(*ends)

    refused = ""
    try:
        _search(trains, ends, tried, tolerance, times, widen)
    except _RefusedError as e:
        refused = str(e)
    return Largest(ends[0], ends[1], tried, refused)


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
    before = good = ends[0]
    stride, trained = max(1, good // 8), True
    while True:
        if bad in tried:
            if bad - good <= max(1, int(tolerance * good)):
                return
        elif good == ends[1]:
            if times == 0 or good == MOST:
                return
            times -= 1
            widen(1, min(_FASTER * good, MOST))
            bad = ends[1] + 1
        n = good + max(stride, _room(before, good, tried)) if trained else (good + bad) // 2
        if trained and n >= bad:
            n = (good + bad) // 2 if bad in tried else bad - 1
        trained = trains(n)
        if trained:
            before, good, stride = good, n, _FASTER * stride
        else:
            bad, stride = n, 1


def _room(before: int, good: int, tried: dict[int, Report]) -> int:
    """How much further memory would last, by how it grew between two numbers; 0 if it did not."""
    less, more = tried[before].peak_device_bytes, tried[good].peak_device_bytes
    if more == less:
        return 0
    return (tried[good].memory_bytes - more) * (good - before) // (more - less)
