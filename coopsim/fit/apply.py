"""Run a script with a remedy, without changing a file."""

from dataclasses import replace

from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import changed
from coopsim.script import Report, Script, run


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """Run a script with a remedy on the phantom GPU, with all of the card's memory, and return the report.

    `output` is the file descriptor of the script's stdout (None: our own). Raises what coopsim.script.run raises.
    """
    return run(changed(replace(script, command=remedy.command, output=output), remedy.changes))
