"""`coopsim phantom run` as a user calls it, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

COMMAND = (sys.executable, "-m", "coopsim", "phantom", "run")
SCRIPTS = Path(__file__).parent / "scripts"


def phantom_run(*options: object) -> tuple[int, str, str]:
    """Call the command as a user does, in a process of its own."""
    command = [*COMMAND, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def report_of(*options: object) -> dict:
    """The JSON of a run that could be made."""
    code, out, err = phantom_run("--json", *options)
    report = json.loads(out)
    runs_out = report["outcome"] == "oom" or bool(report.get("replay") and report["replay"]["runs_out"])
    assert code == (3 if runs_out else 0), err
    return report


def report_of_text(folder: Path, text: str, *options: object) -> dict:
    """The same of the text of a script, on an RTX 3060; its file is train.py in `folder`."""
    (folder / "train.py").write_text(text)
    return report_of("--gpu", "rtx-3060", *options, "--", "python", folder / "train.py")
