"""Cases of scripts beside the tests, as the kinds of remedy take them."""

import shutil
from pathlib import Path

from coopsim.fit.case import Case
from coopsim.fit.runs import Runs
from coopsim.fit.trials import Trials
from coopsim.script import Script

SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20


def too_large(memory_mib: int, folder: Path, *words: str) -> Case:
    """A copy of a script, surveyed, that needs more than its card has."""
    shutil.copy(SCRIPTS / words[0], folder)
    script = Script((str(folder / words[0]), *words[1:]), card="rtx-3060", memory_bytes=memory_mib * MIB, quiet=True)
    trials = Trials(script, Runs(lambda _: None))
    case = Case(trials, trials.survey(folder / "requests.npy"), folder / "requests.npy")
    assert case.survey.needs_bytes > script.total_bytes
    return case
