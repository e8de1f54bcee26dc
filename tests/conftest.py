"""Shared by all tests: the repository, its real trace, a command line to call, and programs on the phantom GPU."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

from coopsim import phantom
from coopsim.cli import main
from coopsim.phantom import build
from coopsim.trace import Trace, load
from tests.forked import Forks

ROOT = Path(__file__).parent.parent
BERT = ROOT / "traces" / "bert-large.parquet"

# Tests start some hundred processes, side by side: each module is compiled once, and threads that wait leave the
# processor to others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# No test has a limit of wall time: it would depend on what else runs.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

collect_ignore = ["data"]  # what tests read; its programs need a GPU, if a phantom one

Recorder = Callable[..., Path]
Runner = Callable[..., Any]


class Answer(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def coopsim(capsys: pytest.CaptureFixture[str]):
    """Call the command line in this process: `coopsim("replay", trace, …)` returns (code, out, err)."""

    def call(*args: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(a) for a in args])
        except SystemExit as e:
            code = int(e.code or 0)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def bert() -> Trace:
    """BERT-Large, as committed."""
    return load(BERT)


@pytest.fixture(scope="session")
def phantom_gpu() -> None:
    """Skip where the phantom GPU cannot be had; its libraries are compiled once."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def on_phantom(phantom_gpu: None) -> Iterator[Runner]:
    """Run Python text on a card, with variables if need be, and give what it hands to `answer(...)`."""
    forks = Forks()
    yield forks.run
    forks.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session's, whichever of pytest-xdist's processes asks."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def record(phantom_gpu: None, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Capture `step` of a program given as text; give the trace's file, which is shared: not to be written to.

    The same text with the same options is captured once in a session, unless `again`.
    """
    from coopsim.record.capture import Job, capture

    def run(text: str, *, again: bool = False, **options: Any) -> Path:
        name = hashlib.sha256(repr((text, sorted(options.items()))).encode()).hexdigest()[:16]
        folder = tmp_path_factory.mktemp("program") if again else shared / f"program-{name}"
        folder.mkdir(exist_ok=True)
        out = folder / "out.parquet"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not out.exists():
                (folder / "program.py").write_text(text)
                capture(Job(f"{folder / 'program.py'}:step", out, **options))
        return out

    return run
