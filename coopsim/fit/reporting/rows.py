"""Print remedies: a table, and below it the lines to paste."""

from collections.abc import Callable, Iterable

from coopsim.fit.remedy import Remedy
from coopsim.text import human, table

_HEADER = ("", "kind", "peak", "time", "same numbers", "verified")


def lines(remedies: Iterable[Remedy]) -> list[str]:
    """Return the lines to print: a table, and below it each remedy's number, text and lines to paste.

    The table shows peaks in GiB or the like, and times as a difference to the unchanged script's.
    """
    numbered = list(enumerate(remedies, 1))
    host = any(remedy.host_bytes for _, remedy in numbered)
    header = (*_HEADER, "host memory") if host else _HEADER
    found = [table(header, [_row(i, r, host=host) for i, r in numbered])]
    for i, remedy in numbered:
        found += ["", f"{i}  {remedy.text}", *(f"     {line}" for line in remedy.lines)]
        found += [f"     (verified by a stand-in for these lines: {remedy.stand_in})"] * bool(remedy.stand_in)
    return found


class Growing:
    """The rows of a table that is printed while remedies are found, in the order in which they are."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._count = say, 0

    def add(self, remedy: Remedy) -> None:
        """Print a remedy's row, and before the first one the header."""
        if not self._count:
            self._say(_GROWING.format(*_HEADER[1:5]).rstrip())
        self._count += 1
        self._say(_GROWING.format(*map(str, _row(0, remedy, host=False)[1:5])).rstrip())


_GROWING = "    {:<28} {:>10}  {:>7}  {}"


def _row(number: int, remedy: Remedy, *, host: bool) -> list[object]:
    yes = {True: "yes", False: "no"}
    return [
        number,
        remedy.kind,
        human(remedy.peak_device_bytes),
        f"{remedy.time_ratio - 1:+.1%}",
        yes[remedy.same_numbers],
        "stand-in" if remedy.verified and remedy.stand_in else yes[remedy.verified],
        *([human(remedy.host_bytes) if remedy.host_bytes else "-"] if host else []),
    ]
