"""What is printed of a search over runs (run/search.py), whatever it is over: lines as they end, rows, and JSON."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coopsim.base.progress import note
from coopsim.base.text import human

if TYPE_CHECKING:
    from coopsim.run import Report, Script


def say(what: str, said: "Report | str") -> None:
    """Tell how a run ended; `what`: with what."""
    from coopsim.run.search import ended

    note(f"with {what}: {ended(said)}")


def gpu(script: "Script") -> tuple[str, str]:
    """Return the row on the card."""
    return "GPU", f"{script.profile.title} with {human(script.total_bytes)}, imitated"


def peaks(report: "Report") -> str:
    """Return what a run took at its peaks."""
    return f"{human(report.peak_allocated_bytes)} allocated, {human(report.peak_reserved_bytes)} reserved"


def at_peaks(n: int, report: "Report") -> tuple[str, str]:
    """Return the row on what a run with a number took."""
    return f"with {n}", f"{peaks(report)}, {human(report.peak_device_bytes)} of the card, at the peaks"


def to_json(
    script: "Script", found: Mapping[str, object], over: str, tried: "Mapping[Any, Report]", **reports: "Report | None"
) -> dict[str, object]:
    """Return the object of --json: `found`, and the runs with the number that each had, by the name `over`."""
    about = {"command": list(script.command), "gpu": script.card, "memory_bytes": script.total_bytes}
    runs = [
        {over: n, "outcome": report.outcome, "peak_device_bytes": report.peak_device_bytes}
        for n, report in tried.items()
    ]
    whole = {name: report.to_dict() if report is not None else None for name, report in reports.items()}
    return {**about, **found, "runs": runs, **whole}
