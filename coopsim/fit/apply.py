"""Run a script with a remedy; no file is changed."""

from dataclasses import replace

from coopsim.fit.remedy import Remedy
from coopsim.fit.trials import GUEST
from coopsim.script import Report, Script, run


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """On the phantom GPU, with all of the card's memory. `output`: where the script's stdout goes."""
    return run(
        replace(
            script,
            command=remedy.command,
            output=output,
            variables=remedy.changes.variables,
            world_size=remedy.changes.cards or script.world_size,
            guest=GUEST,
            told=remedy.changes.message(),
        )
    )
