"""The largest number, such as a batch size, with which a script trains."""

from collections.abc import Callable
from dataclasses import dataclass

from coopsim.capture.script.report import Report

_FASTER = 4  #: by which a stride grows


@dataclass(frozen=True)
class Largest:
    """What was found between two numbers. tried: by number, in the order in which they ran."""

    low: int
    high: int
    tried: dict[int, Report]

    @property
    def value(self) -> int | None:
        """The largest that was seen to train; None if the lowest does not."""
        return max((n for n, report in self.tried.items() if report.outcome == "ok"), default=None)

    @property
    def fails(self) -> int | None:
        """The smallest that was seen to fail; None if none did."""
        return min((n for n, report in self.tried.items() if report.outcome != "ok"), default=None)


def search(run: Callable[[int], Report], low: int, high: int, tried: dict[int, Report]) -> Largest:
    """The largest number from `low` to `high` with which `run` trains, if it trains with all below it.

    The one found and the one above it (up to `high`) have both run. After a run that trains, the next to try is where
    memory would be full if it grew on as it grew last, and at least a stride further, which grows; after one that does
    not, half way. tried: gets every run, for who interrupts.
    """

    def trains(n: int) -> bool:
        tried[n] = run(n)
        return tried[n].outcome == "ok"

    if not trains(low):
        return Largest(low, high, tried)
    before, good, bad, stride, trained = low, low, high + 1, max(1, low // 8), True
    while bad - good > 1:
        n = good + max(stride, _room(before, good, tried)) if trained else (good + bad) // 2
        if trained and n >= bad:
            n = (good + bad) // 2 if bad <= high else high
        trained = trains(n)
        if trained:
            before, good, stride = good, n, _FASTER * stride
        else:
            bad, stride = n, 1
    return Largest(low, high, tried)


def _room(before: int, good: int, tried: dict[int, Report]) -> int:
    """How much further memory would last, by how it grew between two numbers; 0 if it did not."""
    less, more = tried[before].peak_device_bytes, tried[good].peak_device_bytes
    if more == less:
        return 0
    return (tried[good].memory_bytes - more) * (good - before) // (more - less)
