"""What `fit` says of the unchanged script beside the verdict."""

from coopsim.script import Report
from coopsim.text import human


def full_after(report: Report, memory_bytes: int) -> int | None:
    """Return the step by which a card is full if memory goes on growing; None if it does not grow, or is too large."""
    grown = report.growth
    left = memory_bytes - report.peak_device_bytes
    if not grown or not grown["bytes_per_step"] or left < 0:
        return None
    return int(grown["last"] + left // grown["bytes_per_step"])


def of_growth(report: Report) -> list[str]:
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


def of_evaluation(report: Report, memory_bytes: int) -> list[str]:
    """Return a line on an evaluation that keeps its outputs: by how much it grows, and when the card is full."""
    said = []
    of = report.phases.get("evaluation", {})
    if of.get("grows_bytes"):
        line = f"evaluation grows by {human(of['grows_bytes'])} per batch"
        full = [
            i for i, nbytes in enumerate(report.evaluation_peaks, 1) if report.context_bytes + nbytes > memory_bytes
        ]
        line += (
            f", and the card is full by batch {full[0]} of {of['batches']}" if full else f" for {of['batches']} batches"
        )
        said.append(
            line + "".join(f"; {one['name']} at {one['place']} keeps it" for one in report.evaluation_keeps[:1])
        )
    if report.host_ran_out:
        said.append(f"with memory enough on the card, {report.host_ran_out}")
    return said
