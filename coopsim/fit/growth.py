"""What `fit` says of a script whose memory grows from step to step."""

from coopsim.script import Report
from coopsim.text import human


def full_after(report: Report, memory_bytes: int) -> int | None:
    """Return the step by which a card is full if memory goes on growing; None if it does not grow, or is too large."""
    grown = report.growth
    left = memory_bytes - report.peak_device_bytes
    if not grown or not grown["bytes_per_step"] or left < 0:
        return None
    return int(grown["last"] + left // grown["bytes_per_step"])


def notes(report: Report) -> list[str]:
    """Return a line on the growth, if there is any: how much per step, and by which op."""
    grown = report.growth
    if not grown or not grown["bytes_per_step"]:
        return []
    by = grown["held"][0] if grown["held"] else None
    made = f", most of it by {by['op'] or 'ops that were not seen'}" if by else ""
    made += f" in {by['module']}" if by and by["module"] else ""
    return [
        f"memory grows by {human(grown['bytes_per_step'])} per step from step {grown['first']} to {grown['last']}"
        f"{made}; `coopsim phantom run` tells what keeps it"
    ]
