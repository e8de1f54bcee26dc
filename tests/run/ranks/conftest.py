"""What these tests share: jobs of several ranks, run by the command."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coopsim import phantom
from coopsim.phantom import build

#: These are programs for users' hands, not modules with doctests.
collect_ignore = ["scripts"]

SCRIPTS = Path(__file__).parent / "scripts"


class Answer(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """What it said last on stderr."""
        return self.err.splitlines()[-1]


Command = Callable[..., Answer]
Job = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def phantom_run() -> Command:
    """Call `coopsim phantom run` as a user does; skip where the phantom GPU cannot be had."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))

    def run(*words: object) -> Answer:
        command = [sys.executable, "-m", "coopsim", "phantom", "run", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True)
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def job(phantom_run: Command) -> Job:
    """The JSON of `python SCRIPT` as ranks of a world: job("ddp", world=4, ranks="all")."""

    def run(script: str, *words: object, world: int, ranks: str = "0") -> dict[str, Any]:
        options = ("--json", "--gpu", "h100-80gb", "--world", world, "--ranks", ranks)
        answer = phantom_run(*options, "--", "python", SCRIPTS / f"{script}.py", *words)
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    return run
