"""Run a script with a remedy; no file is changed."""

from dataclasses import replace

from coopsim.fit.printed import copied
from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import changed
from coopsim.script import Report, Script, run


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """On the phantom GPU, with all of the card's memory. `output`: where the script's stdout goes.

    What runs is a copy of the script with the remedy's lines, as it was verified, or the stand-in for them.
    """
    script = replace(script, command=remedy.command, output=output)
    with copied(remedy.command, dict(remedy.texts)) as copy:
        if remedy.texts and copy is not None:
            return run(changed(replace(script, command=copy), remedy.changes.outside_files))
    return run(changed(script, remedy.changes))
