"""What the report of a run with a remedy says of it: whether it works, its time, and what it takes of the host."""

from coopsim.fitting.changes import Changes
from coopsim.fitting.survey import Survey
from coopsim.run import Report

#: The fraction of the card's memory that a remedy leaves free, because libraries take more on a real card than on the
#: phantom.
HEADROOM = 0.02


def works(report: Report, ran: Changes) -> bool:
    """Return whether a run trained. Inside a budget, also whether most steps from the third on followed a plan.

    The time of steps without a plan is not predicted.
    """
    if report.outcome != "ok" or not ran.live:
        return report.outcome == "ok"
    return not report.plugin["failed"] and goes_by_plan(report)


def depends_on_card(report: Report, ran: Changes) -> bool:
    """Return whether a run might have gone otherwise on a card with more memory: its allocator had to free its cache.

    Inside a budget that it kept, it is the budget for which the cache was freed.
    """
    kept = bool(ran.live) and report.plugin["peak_reserved_bytes"] <= report.plugin["budget_bytes"]
    return bool(report.retries) and not kept


def goes_by_plan(report: Report) -> bool:
    """Return whether most steps from the third on followed a plan, in a run inside a budget."""
    said = report.plugin
    return bool(said["planned_steps"] > max((said["steps"] - 2) // 2, 0))


def ratio(report: Report, survey: Survey, changes: Changes) -> float:
    """Return the time of an optimizer step in a run, divided by that of the unchanged script; 1.0 if that has no time.

    With accumulation, a step has `changes.accumulate` forward and backward passes. Where ops wait for collectives
    (`changes.of_fsdp`), it is taken from the phantom's clock; of live, what it predicts; else by prices of ops.
    """
    if changes.live:
        return float(report.plugin["predicted_overhead"])
    if changes.of_fsdp and changes.accumulate == 1:
        return float(report.plugin["clock_step_ns"]) / survey.clock_step_ns if survey.clock_step_ns else 1.0
    accumulate = changes.accumulate
    step, optimizer = float(report.plugin["step_ns"]), float(report.plugin["optimizer_ns"])
    return (accumulate * (step - optimizer) + optimizer) / survey.step_ns if survey.step_ns else 1.0


def taken(report: Report, changes: Changes) -> int:
    """Return the bytes of the host's memory that hold values of the card in a run: of live, the area of its copies."""
    return int(report.plugin["host_bytes"]) if changes.live else 0
