"""A run that ends before the script does: after so many optimizer steps, or because it was interrupted."""

import os
import sys
import time
from pathlib import Path

from coopsim.base.progress import note
from coopsim.base.text import count
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport

_STOP = "stop"  #: the file in the folder of reports that asks the script's processes to end
_PACE_S = 30.0


def ask_to_end(folder: str) -> None:
    """Ask the processes that leave their reports in `folder` to end with their next optimizer step. Do not wait."""
    Path(folder, _STOP).touch()


class Ending(Probe):
    """Ends a script's process after an optimizer step. `after`: the number of steps; 0: only when asked to.

    A script that runs for long says on stderr how far it is.
    """

    def __init__(self, after: int, folder: str) -> None:
        self._after, self._stop = after, os.path.join(folder, _STOP)
        self._began = self._said = time.monotonic()
        self._early = False

    def step_ended(self, steps: int) -> None:
        """Raise SystemExit (code 0) if the script is to end with this step, the one numbered `steps` from 1.

        Else print a note on how far it is, at most every 30 seconds.
        """
        if (self._after and steps >= self._after) or os.path.exists(self._stop):
            self._early = True
            sys.exit(0)  # `finally` blocks and handlers of atexit run, as if the script had said so
        now = time.monotonic()
        if now > self._said + _PACE_S:
            self._said = now
            until = f" of {self._after}" if self._after else ""
            done = f"{steps}{until} optimizer steps" if until else count(steps, "optimizer step")
            seconds = now - self._began
            ends = "" if self._after else "; --steps N ends the run after N"
            note(f"coopsim: {done} in {seconds:.0f} s ({steps / seconds:.3g} per second){ends}")

    def report(self, found: ProcessReport) -> None:
        found.ended_early = self._early
