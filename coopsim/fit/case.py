"""What every kind of remedy is found from."""

from dataclasses import dataclass
from pathlib import Path

from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit
from coopsim.fit.remedy import Remedy
from coopsim.fit.survey import Survey
from coopsim.fit.trials import Trials


@dataclass(frozen=True)
class Case:
    """A script that does not fit, what a run of it has told, and the means to try changes.

    requests: the file of what it asked of the allocator. batches: of a command with a place for the batch.
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
        """A remedy that has not been tried. same: the numbers stay the same bit for bit."""
        command = command or self.trials.script.command
        pasted = lines if after_model else ()
        return Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)

    def verify(self, remedy: Remedy) -> Remedy | None:
        """Run it; the remedy if it fits."""
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey)

    def measure(self, remedy: Remedy) -> Remedy | None:
        """Run it; what that said if it fits, which counts as no remedy."""
        return self.trials.verify(remedy, _stand_in(remedy.changes), self.survey, counts=False)

    def failure(self, remedy: Remedy) -> str:
        """For what other reason than memory it failed; "" if it did not."""
        return self.trials.failed.get(_stand_in(remedy.changes), "")

    def runs_out(self, remedy: Remedy) -> bool:
        """Does memory run out with it?"""
        report = self.trials.run(remedy.text, _stand_in(remedy.changes), command=remedy.command)
        return report is not None and report.outcome == "oom"

    def nearest(self, remedy: Remedy) -> Remedy:
        """What it takes, where it does not fit."""
        return self.trials.nearest(remedy, _stand_in(remedy.changes), self.survey)

    @property
    def over_bytes(self) -> int:
        """What is missing."""
        return self.survey.needs_bytes - self.trials.limit_bytes


def _stand_in(changes: Changes) -> Changes:
    """What runs for the changes: gradients that are added up over batches take memory from the second batch on.

    A script that is cut short for a trial may end before the optimizer's turn: it steps every time.
    """
    return changes.with_(Changes(hold_gradients=True)) if changes.accumulate > 1 else changes
