"""What watches a script's process: probes, each of which fills its part of the process's report.

Each part is made on its own: one that fails loses nothing of the others.
"""

import traceback
from collections.abc import Callable
from typing import Any

from coopsim.run.process import ProcessReport


class Probe:
    """What probes have in common: each does what it needs at the moments that Watch tells them of; the rest is no-ops.

    name: the key under which Report.lost has it if its part of the report fails; "" if without that part the whole
    report is worth nothing.
    """

    name = ""

    def install(self) -> None:
        """Put its hooks in place; called once, when torch has just been imported."""

    def step_ended(self, steps: int) -> None:
        """Called after each optimizer step, the one numbered `steps` from 1."""

    def ran_out(self, device: int, asked: int) -> None:
        """Called when a request of `asked` bytes fails, after the allocator has tried everything, before it raises."""

    def report(self, found: ProcessReport) -> None:
        """Fill its fields of the process's report; called once, at the end, in a process that used the GPU."""


def fill(probes: "list[Probe]", found: ProcessReport) -> None:
    """Let all probes fill their parts of a report; those that fail go into `lost`.

    Raises what one without a name raises.
    """
    for probe in probes:
        if not probe.name:
            probe.report(found)
            continue
        reason = attempt(lambda probe=probe: probe.report(found))  # type: ignore[misc]
        if reason:
            found.lost[probe.name] = reason


def attempt(action: Callable[[], Any]) -> str:
    """Do something; if it raises, print the traceback, and return the error in a line. "" if it does not."""
    try:
        action()
    except Exception as error:
        traceback.print_exc()
        said = (str(error).strip().splitlines() or [""])[0]
        return f"{type(error).__name__}: {said}"
    return ""
