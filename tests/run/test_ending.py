"""A run that ends before the script does: after as many steps as were asked for, or when it is interrupted."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.run.command import COMMAND, report_of_text
from tests.run.leaks import HEAD

pytestmark = pytest.mark.usefixtures("phantom_gpu")
ENDLESS = HEAD + "while True:\n    train(model(data()).square().mean())\n    print('stepped', flush=True)\n"
THREE = HEAD + "for _ in range(3):\n    train(model(data()).square().mean())\n"
#: Reference cycles that end with Python: of a file that is not yet written to its end, of an object with a finalizer.
FILE = "held = [open({!r}, 'w')]\nheld.append(held)\nheld[0].write('all of it')\n"
FINALIZER = """
import os
class Log:
    def __init__(self):
        self.me, self.write, self.file = self, os.write, os.open({!r}, os.O_WRONLY | os.O_CREAT)
    def __del__(self):
        self.write(self.file, b"all of it")
log = Log()
"""


def test_after_as_many_steps_as_were_asked_for(tmp_path: Path) -> None:
    files = [tmp_path / "by a cycle", tmp_path / "by a finalizer"]
    found = report_of_text(tmp_path, FINALIZER.format(str(files[1])) + ENDLESS, "--steps", 3)
    whole = report_of_text(tmp_path, FILE.format(str(files[0])) + THREE, "--steps", 4)
    assert [file.read_text() for file in files] == ["all of it"] * 2
    assert (found["steps"], found["ended_early"]) == (3, True)
    assert (whole["steps"], whole["ended_early"]) == (3, False)
    peaks = [key for key in found if key.startswith("peak_")]
    assert {key: found[key] for key in peaks} == {key: whole[key] for key in peaks}


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_interrupted(how: signal.Signals, tmp_path: Path) -> None:
    """The report is of what ran; the exit code tells that it was not all."""
    (tmp_path / "train.py").write_text(ENDLESS)
    command = [*COMMAND, "--gpu", "rtx-3060", "--", "python", str(tmp_path / "train.py")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while "stepped" not in child.stdout.readline():
        assert child.poll() is None
    child.send_signal(how)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert re.search(r"^outcome +interrupted after \d+ optimizer steps?; the figures are of what ran$", out, re.M), out
    assert "peak reserved" in out
    assert err.splitlines()[-1] == "coopsim: interrupted"
