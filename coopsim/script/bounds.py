"""What a script takes if masks keep all of their elements, and if they keep none, where sizes depend on data."""

from dataclasses import replace

from coopsim.observe.data.masks import LOWER
from coopsim.observe.errors import CaptureError
from coopsim.script.report import Bound, Report
from coopsim.script.run import run
from coopsim.script.running import Running
from coopsim.script.script import Script


def with_other_bound(script: Script, report: Report, running: Running | None = None) -> Report:
    """Run the script again with masks that keep nothing, and return `report` with those figures in `other_masks`.

    If that run fails, `other_masks` says why.

    If the script takes more with the lower bound, as it may where the host branches on a mask, that run's report is
    returned and `other_masks` has the figures of the first, except where the smallest memory was searched for.

    The report is returned as it is if the user has said what masks keep (`Script.masks`), if no size depended on a
    mask, or if the run with the other bound is the one that failed.
    """
    if script.masks or not report.depends_on_masks or report.other_masks is not None:
        return report
    try:
        low = run(replace(script, masks=LOWER, quiet=True), running=running)
    except CaptureError as e:
        return replace(report, other_masks=Bound("none", failure=str(e)))
    if report.smallest_memory_bytes is None and _size(low) > _size(report):
        return replace(low, other_masks=Bound.of(report))
    return replace(report, other_masks=Bound.of(low))


def _size(report: Report) -> tuple[bool, int]:
    return report.outcome == "oom", report.peak_reserved_bytes
