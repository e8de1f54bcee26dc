"""What `fit` prints: a table of remedies, the lines to paste below it, and notes on the unchanged script."""

from collections.abc import Callable, Iterable

from coopsim.base.text import human, table
from coopsim.fitting.remedy import Remedy
from coopsim.run import Report

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


def notes(report: Report, memory_bytes: int) -> list[str]:
    """Return lines on what a run of the unchanged script tells beside its need."""
    found = []
    if not report.steps and report.outcome == "ok":
        found.append("no optimizer stepped: what its first step takes, such as Adam's state, is not counted")
    found += of_growth(report) + of_evaluation(report, memory_bytes)
    found += map(str, report.unused)
    if report.memory_fraction is not None:
        found.append(
            f"the script limits PyTorch to {report.memory_fraction:.0%} of the card's memory "
            "(set_per_process_memory_fraction)"
        )
    return found


def of_growth(report: Report) -> list[str]:
    """Return a line on the growth, if there is any: how much per step, and by which op."""
    grown = report.growth
    if not grown or not grown.bytes_per_step:
        return []
    made = f", most of it {grown.held[0].by}" if grown.held else ""
    return [
        f"memory grows by {human(grown.bytes_per_step)} per step from step {grown.first} to {grown.last}"
        f"{made}; `coopsim phantom run` tells what keeps it"
    ]


def of_evaluation(report: Report, memory_bytes: int) -> list[str]:
    """Return a line on an evaluation that keeps its outputs: by how much it grows, and when the card is full."""
    said = []
    of = report.evaluation
    if of.grows_bytes:
        line = f"evaluation grows by {human(of.grows_bytes)} per batch"
        full = [
            i for i, nbytes in enumerate(report.evaluation_peaks, 1) if report.context_bytes + nbytes > memory_bytes
        ]
        line += f", and the card is full by batch {full[0]} of {of.batches}" if full else f" for {of.batches} batches"
        said.append(line + "".join(f"; {one.name} at {one.place} keeps it" for one in report.evaluation_keeps[:1]))
        if of.with_gradients:
            said.append("evaluation is with gradients: torch.no_grad() around it is missing, and was not tried")
    if report.host_ran_out:
        said.append(f"with memory enough on the card, {report.host_ran_out}")
    return said
