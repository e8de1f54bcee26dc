"""Shared by all tests: the repository, its real trace, a command line to call, and programs on the phantom GPU."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coopsim import phantom
from coopsim.cli import main
from coopsim.phantom import build
from coopsim.trace import Trace, load

ROOT = Path(__file__).parent.parent
BERT = ROOT / "traces" / "bert-large.parquet"

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
def on_phantom(phantom_gpu: None) -> Runner:
    """Run Python text on a card and give what it hands to `answer(...)`."""

    def run(text: str, card: str = "a100-80gb", total_bytes: int | None = None, **variables: str) -> Any:
        program = f"import json, os, sys\ndef answer(x): print(json.dumps(x), flush=True); os._exit(0)\n{text}"
        environment = os.environ | phantom.environment(card, total_bytes=total_bytes) | variables
        child = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr[-3000:]
        return json.loads(child.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def record(phantom_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Capture `step` of a program given as text; give the trace's file."""
    from coopsim.capture import Job, capture

    def run(text: str, **options: Any) -> Path:
        folder = tmp_path_factory.mktemp("program")
        (folder / "program.py").write_text(text)
        capture(Job(f"{folder / 'program.py'}:step", folder / "out.parquet", **options))
        return folder / "out.parquet"

    return run
