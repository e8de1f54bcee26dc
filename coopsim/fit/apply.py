"""Run a script with a remedy; no file is changed."""

from dataclasses import replace

from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import changed
from coopsim.script import Report, Script, run


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """On the phantom GPU, with all of the card's memory. `output`: where the script's stdout goes."""
    return run(changed(replace(script, command=remedy.command, output=output), remedy.changes))
