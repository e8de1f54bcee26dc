"""The input of the search for every kind of remedy."""

from dataclasses import dataclass
from pathlib import Path

from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit
from coopsim.fit.patch import certain
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Survey
from coopsim.fit.trials import Trials


@dataclass(frozen=True)
class Case:
    """A script that does not fit, the survey of a run of it, and the means to try changes.

    requests: the file of its requests to the allocator (script/history.py).
    """

    trials: Trials
    survey: Survey
    requests: Path

    def proposal(
        self,
        kind: str,
        text: str,
        lines: tuple[str, ...],
        changes: Changes,
        *,
        same: bool,
        command: tuple[str, ...] = (),
        after_model: bool = False,
        edits: tuple[Edit, ...] = (),
    ) -> Remedy:
        """Return a remedy that has not been tried, for the script's own command by default.

        same: whether all results remain the same, bit for bit. after_model: whether `lines` belong where the model was
        made, so that they can become a patch.
        """
        command = command or self.trials.script.command
        pasted = lines if after_model else ()
        return Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)

    def verify(self, remedy: Remedy) -> Remedy | None:
        """Run the script with a remedy; return the remedy with its figures if it fits, else None."""
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey)

    def measure(self, remedy: Remedy) -> Remedy | None:
        """Run it; what that said if it fits, which counts as no remedy."""
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey, counts=False)

    def failure(self, remedy: Remedy) -> str:
        """Return the reason other than memory for which the script failed with a remedy; "" if it did not."""
        return self.trials.failed.get(_stand_in(remedy.changes), "")

    def runs_out(self, remedy: Remedy) -> bool:
        """Run the script with a remedy, and return whether memory ran out."""
        report, _ = self.trials.run_once(remedy, _stand_in(remedy.changes), self.survey, what=remedy.text)
        return report is not None and report.outcome == "oom"

    def can_run(self, remedy: Remedy) -> bool:
        """Return whether a remedy has a stand-in, or lines whose place is certain."""
        return not remedy.changes.printed or certain(remedy, self.survey) is not None

    def nearest(self, remedy: Remedy) -> Remedy:
        """Return a remedy that does not fit, with its peak and its time as of a run with enough memory."""
        return self.trials.nearest(remedy, _stand_in(remedy.changes), self.survey)

    @property
    def over_bytes(self) -> int:
        """The bytes by which the script's need exceeds what a remedy may use."""
        return self.survey.needs_bytes - self.trials.limit_bytes


def _stand_in(changes: Changes) -> Changes:
    """Return the changes to run for a proposal; for accumulation, gradients are held, and every step is taken.

    Accumulated gradients take memory from the second batch on, and a short trial may end before the optimizer steps.
    """
    return changes.with_(Changes(hold_gradients=True)) if changes.accumulate > 1 else changes
