"""`coopsim phantom run` of a compiled script, as a user calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "scripts" / "compiled.py"


#: One process compiles: on the machines of CI a pool of them takes longer to start.
VARIABLES = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def phantom_run(*words: object, **variables: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "coopsim", "phantom", "run", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=VARIABLES | variables)
    return done.returncode, done.stdout, done.stderr


def report_of(*words: object, **variables: str) -> tuple[dict, list[str]]:
    """The JSON, and the lines in which the script printed its peaks."""
    code, out, err = phantom_run("--json", *words, **variables)
    assert code == 0, err
    return json.loads(out), [line for line in err.splitlines() if line.startswith("peaks ")]
