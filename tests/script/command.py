"""`coopsim phantom run` as a user calls it, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def phantom_run(*options: object) -> tuple[int, str, str]:
    """Call the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def report_of(*options: object) -> dict:
    """The JSON of a run that could be made."""
    code, out, err = phantom_run("--json", *options)
    report = json.loads(out)
    assert code == {"ok": 0, "oom": 3}[report["outcome"]], err
    return report
