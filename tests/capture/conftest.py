"""What these tests share: programs that run on the phantom GPU in child processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.capture import Job, capture
from coopsim.phantom import build

#: These are programs for users' hands, not modules with doctests.
collect_ignore = ["scripts"]

Recorder = Callable[..., Path]
Runner = Callable[..., Any]


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

    def run(text: str, **options: Any) -> Path:
        folder = tmp_path_factory.mktemp("program")
        (folder / "program.py").write_text(text)
        capture(Job(f"{folder / 'program.py'}:step", folder / "out.parquet", **options))
        return folder / "out.parquet"

    return run


@pytest.fixture
def step_file(tmp_path: Path) -> Callable[[str], str]:
    """Write a program; give the target that names its function `step`."""

    def write(text: str) -> str:
        (tmp_path / "train.py").write_text(text)
        return f"{tmp_path / 'train.py'}:step"

    return write
