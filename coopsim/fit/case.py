"""The input of the search for every kind of remedy: of changes to a script so that it fits a card (remedy.py)."""

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

    requests: the file of its requests to the allocator (script/watching/requests.py).
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
        """Return a remedy that has not been tried, so without figures; the arguments are fields of Remedy.

        same: whether all results remain the same, bit for bit. command: () for the script's own. after_model: whether
        `lines` belong where the model was made, so that they can become a patch.
        """
        command = command or self.trials.script.command
        pasted = lines if after_model else ()
        return Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)

    def verify(self, remedy: Remedy) -> Remedy | None:
        """Run the script with a remedy; return the remedy with its figures if it fits, else None.

        One that fits counts as found (Trials.found).
        """
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey)

    def measure(self, remedy: Remedy) -> Remedy | None:
        """Do what `verify` does, but do not count the remedy as found."""
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey, counts=False)

    def failure(self, remedy: Remedy) -> str:
        """Return why the script failed when it was run with a remedy; "" if it did not, or only ran out of memory."""
        return self.trials.failed.get(_stand_in(remedy.changes), "")

    def runs_out(self, remedy: Remedy) -> bool:
        """Run the script with a remedy, and return whether memory ran out; False if it failed for another reason."""
        report, _ = self.trials.run_once(remedy, _stand_in(remedy.changes), self.survey, what=remedy.text)
        return report is not None and report.outcome == "oom"

    def can_run(self, remedy: Remedy) -> bool:
        """Return whether a remedy can be tried: its lines have a certain place in the files, or a stand-in is run.

        A stand-in makes the same change inside the script's process; remedies with `changes.printed` have none.
        """
        return not remedy.changes.printed or certain(remedy, self.survey) is not None

    def nearest(self, remedy: Remedy) -> Remedy:
        """Run a remedy that does not fit with enough memory, and return it with the peak and time of that run.

        As it was if the script fails with it.
        """
        return self.trials.nearest(remedy, _stand_in(remedy.changes), self.survey)

    @property
    def over_bytes(self) -> int:
        """The bytes by which the script's need exceeds what a remedy may use: the card's memory less HEADROOM."""
        return self.survey.needs_bytes - self.trials.limit_bytes


def _stand_in(changes: Changes) -> Changes:
    """Return the changes to run for a proposal; for accumulation, gradients are held, and every step is taken.

    Accumulated gradients take memory from the second batch on, and a short trial may end before the optimizer steps.
    """
    return changes.with_(Changes(hold_gradients=True)) if changes.accumulate > 1 else changes
