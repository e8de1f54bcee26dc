"""The bench: a script that does not fit its card, what is known of it, and the means to try remedies on it.

A remedy's `propose(bench)` has the remedies of its kind tried; each that fits is among `bench.found` from then on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.options import Option
from coopsim.fitting.remedy import Remedy, with_options
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Survey
from coopsim.run import Report, Script


@dataclass(frozen=True)
class TryOutcome:
    """The outcome of a trial. `done`: the remedy with its figures if it fits, else None.

    `failure`: why the script failed for another reason than memory; "" if it did not. `report`: that of the last run;
    None if there was none, or if it failed.
    """

    done: Remedy | None
    failure: str = ""
    report: Report | None = None


@dataclass(frozen=True)
class Bench:
    """A script, the survey of a run of it, and its trials. `first`: whether one remedy that fits is enough."""

    trials: Trials
    survey: Survey
    first: bool = False

    @property
    def script(self) -> Script:
        """The unchanged script."""
        return self.trials.script

    @property
    def limit_bytes(self) -> int:
        """The bytes of the card that a remedy may use."""
        return self.trials.limit_bytes

    @property
    def over_bytes(self) -> int:
        """The bytes by which the script's need exceeds what a remedy may use (limit_bytes)."""
        return self.survey.needs_bytes - self.limit_bytes

    @property
    def found(self) -> Mapping[str, Remedy]:
        """Every remedy that fits, by its key."""
        return self.trials.found

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
        options: tuple[tuple[Option, str], ...] = (),
    ) -> Remedy:
        """Return a remedy that has not been tried, so without figures; the arguments are fields of Remedy.

        same: whether all results remain the same, bit for bit. command: () for the script's own. after_model: whether
        `lines` belong where the model was made, so that they can become a patch.
        """
        command = command or self.script.command
        pasted = lines if after_model else ()
        placed = not after_model or not self.survey.model or bool(self.survey.model.name)
        remedy = Remedy(kind, text, lines, 0, 0.0, same, False, changes, command, pasted, edits)
        return replace(remedy, options=options, placed=placed)

    def by_option(self, kind: str, text: str, option: Option, value: str, *, same: bool) -> Remedy:
        """Return the remedy, not tried yet, that gives a value to an option of the program."""
        command, options = option.added(self.script.command, value), ((option, value),)
        changes = Changes(printed=(f"{option.shown} {value}",))
        return with_options(self.proposal(kind, text, (), changes, same=same, command=command), options)

    def has_option(self, kind: str) -> bool:
        """Return whether a remedy of this kind that fits is an option of the program."""
        return any(remedy.kind == kind and remedy.options for remedy in self.found.values())

    def tried(self, remedy: Remedy) -> TryOutcome:
        """Run the script with a remedy, and return the outcome."""
        ran = remedy.changes.stand_in
        self.trials.reports.pop(ran, None)
        done = self.trials.verify(remedy, self.survey)
        return TryOutcome(done, self.failure(remedy), self.trials.reports.get(ran))

    def fits(self, remedy: Remedy) -> Remedy | None:
        """Run the script with a remedy, and return it with its figures if it fits, else None."""
        return self.tried(remedy).done

    def first_of(self, remedies: Iterable[Remedy | None]) -> Remedy | None:
        """Try remedies until one fits, and return that; None if none does."""
        return next((done for one in remedies if one is not None and (done := self.fits(one)) is not None), None)

    def each(self, remedies: Iterable[Remedy | None]) -> None:
        """Try every remedy; until one fits if that is enough."""
        for one in remedies:
            if one is not None and self.fits(one) is not None and self.first:
                return

    def failure(self, remedy: Remedy) -> str:
        """Return why the script failed when it was run with a remedy; "" if it did not, or only ran out of memory."""
        return self.trials.failed.get(remedy.changes.stand_in, "")

    def runs_out(self, remedy: Remedy) -> bool:
        """Run the script with a remedy, and return whether memory runs out."""
        report = self.trials.run_once(remedy, self.survey)
        return report is not None and report.outcome == "oom"

    def needs(self, changes: Changes) -> int | None:
        """Return the smallest memory, by a replay of the recorded requests with changes to the environment.

        None if none were recorded.
        """
        requests = self.trials.requests
        if requests is None or not requests.exists():
            return None
        return self.trials.needs(self.survey.report, requests, changes)

    def withdraw(self, remedy: Remedy) -> None:
        """Leave out a remedy that fits: another is better."""
        self.trials.found.pop(remedy.key, None)

    def note(self, text: str) -> None:
        """Have a line printed with the verdict."""
        self.trials.notes.append(text)
