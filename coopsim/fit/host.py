"""The host's memory that a remedy takes for values of the card, and whether this machine has so much."""

import os

from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Survey
from coopsim.script import Report
from coopsim.text import human


def taken(report: Report, survey: Survey, changes: Changes) -> int:
    """Return the bytes of the host's memory that hold values of the card in a run: of live, the area of its copies.

    Of save_on_cpu, what PyTorch's allocator pins beyond what it pins for the unchanged script.
    """
    if changes.live:
        return int(report.plugin["host_bytes"])
    if not changes.on_host:
        return 0
    return max(int(report.host["pinned_bytes"]) - int(survey.report.host["pinned_bytes"]), 0)


def shortage(remedy: Remedy) -> list[str]:
    """Return a line, to print with the verdict, if a remedy takes more than this machine has; [] if it does not."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if remedy.host_bytes <= has:
        return []
    return [f"{remedy.kind} takes {human(remedy.host_bytes)} of the host's memory; this machine has {human(has)}"]
