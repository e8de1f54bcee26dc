"""Cases of scripts beside the tests, as the kinds of remedy take them."""

import shutil
from collections.abc import Callable
from pathlib import Path

from coopsim.fitting.bench import Bench
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script

SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20


def found(bench: Bench, propose: Callable[[Bench], object]) -> list[Remedy]:
    """What a kind of remedy finds."""
    before = set(bench.found)
    propose(bench)
    return [remedy for key, remedy in bench.found.items() if key not in before]


def verified(bench: Bench, remedy: Remedy) -> Remedy | None:
    return bench.trials.verify(remedy, bench.survey)


def surveyed(script: Script, folder: Path) -> Bench:
    """A script that needs more than its card has."""
    trials = Trials(script, Runs(lambda _: None))
    bench = Bench(trials, trials.survey(folder / "requests.npy"))
    assert bench.survey.needs_bytes > script.total_bytes
    return bench


def too_large(memory_mib: int, folder: Path, *words: str) -> Bench:
    """The same, of a copy of a script beside the tests."""
    shutil.copy(SCRIPTS / words[0], folder)
    command = (str(folder / words[0]), *words[1:])
    return surveyed(Script(command, card="rtx-3060", memory_bytes=memory_mib * MIB, quiet=True), folder)
