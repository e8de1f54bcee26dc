"""The training at the end of `make demo`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_it_trains_in_half_the_memory_and_says_so_in_one_line(tmp_path: Path) -> None:
    picture = tmp_path / "live.png"
    command = [sys.executable, ROOT / "experiments/live/demo.py", picture]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.endswith("losses, parameters and optimizer state the same bit for bit")
    assert picture.stat().st_size > 10_000
