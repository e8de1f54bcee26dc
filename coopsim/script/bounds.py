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

    The report is returned as it is if the user has said what masks keep (`Script.masks`), if no size depended on a
    mask, or if the run with the other bound is the one that failed.
    """
    if script.masks or not report.depends_on_masks or report.other_masks is not None:
        return report
    try:
        low = run(replace(script, masks=LOWER, quiet=True), running=running)
    except CaptureError as e:
        return replace(report, other_masks=Bound("none", failure=str(e)))
    return replace(report, other_masks=Bound.of(low))
