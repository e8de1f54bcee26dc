"""What these tests share: `coopsim phantom run` as a user calls it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.phantom import build

Report = Callable[..., dict[str, Any]]
COMMAND = (sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", "rtx-3060")


@pytest.fixture(scope="session")
def phantom_gpu() -> None:
    """Skip where the phantom GPU cannot be had."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def report_of(phantom_gpu: None, tmp_path: Path) -> Report:
    """Run the text of a script; the JSON of a run that went well."""

    def run(text: str, *options: object) -> dict[str, Any]:
        (tmp_path / "train.py").write_text(text)
        command = [*COMMAND, "--json", *map(str, options), "--", "python", str(tmp_path / "train.py")]
        done = subprocess.run(command, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == {"ok": 0, "oom": 3}[found["outcome"]], done.stderr
        return found

    return run
