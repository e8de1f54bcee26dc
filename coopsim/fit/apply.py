"""Run a script with a remedy, without changing a file."""

from dataclasses import replace

from coopsim.fit.printed import copied
from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import changed
from coopsim.script import Report, Script, run


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """Run a script with a remedy on the phantom GPU, with all of the card's memory, and return the report.

    What runs is a copy of the script with the remedy's lines, as it was verified, or the stand-in for them. `output` is
    the file descriptor of the script's stdout (None: our own). Raises what coopsim.script.run raises.
    """
    script = replace(script, command=remedy.command, output=output)
    if not remedy.texts:
        return run(changed(script, remedy.changes))
    with copied(remedy.command, dict(remedy.texts)) as copy:
        return run(changed(replace(script, command=copy), remedy.changes.outside_files))
