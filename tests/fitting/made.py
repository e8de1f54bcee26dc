"""Cases of scripts beside the tests, as the kinds of remedy take them."""

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from coopsim.fitting.proposals import Case, Proposals
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.drive import drive
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Survey
from coopsim.run import Script

SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20


@dataclass(frozen=True)
class Tried(Case):
    """A case, and the trials that know it."""

    trials: Trials = None  # type: ignore[assignment]

    def verify(self, remedy: Remedy) -> Remedy | None:
        return self.trials.verify(remedy, self.survey)

    def drive(self, proposals: Proposals) -> list[Remedy]:
        return drive(self.trials, self.survey, proposals)


def tried(trials: Trials, survey: Survey) -> Tried:
    case = trials.case(survey)
    return Tried(**{field.name: getattr(case, field.name) for field in fields(Case)}, trials=trials)


def surveyed(script: Script, folder: Path) -> Tried:
    """A script that needs more than its card has."""
    trials = Trials(script, Runs(lambda _: None))
    case = tried(trials, trials.survey(folder / "requests.npy"))
    assert case.survey.needs_bytes > script.total_bytes
    return case


def too_large(memory_mib: int, folder: Path, *words: str) -> Tried:
    """The same, of a copy of a script beside the tests."""
    shutil.copy(SCRIPTS / words[0], folder)
    command = (str(folder / words[0]), *words[1:])
    return surveyed(Script(command, card="rtx-3060", memory_bytes=memory_mib * MIB, quiet=True), folder)
