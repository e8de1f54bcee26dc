"""Programs on the phantom GPU, each in a process of its own that is forked from one in which PyTorch is imported.

Importing takes longer than most of them. What PyTorch reads of its environment when it is imported cannot be changed
afterwards: programs with such variables are started anew.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from types import ModuleType
from typing import Any

from coopsim import phantom

ROOT = os.path.dirname(os.path.dirname(__file__))
CARD = "a100-80gb"
#: Imported before programs are forked; they would import these themselves.
MODULES = ("torch", "torch._dynamo", "coopsim.live.session", "coopsim.record.observe.recorder")
#: Beginnings of variables that are read when libraries are loaded.
EARLY = ("LD_", "OMP_", "PYTHON", "PYTORCH", "TORCH")
ANSWER = "import json, os, sys\ndef answer(x): print(json.dumps(x), flush=True); os._exit(0)\n"


class Forks:
    """Runs programs. Its process ends with it, or when this one does."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.forked"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=_environment(CARD, None), stdin=pipe, stdout=pipe, text=True)

    def run(self, text: str, card: str = CARD, total_bytes: int | None = None, **variables: str) -> Any:
        """Run Python text on a card, and return what it hands to `answer(...)`."""
        environment = _environment(card, total_bytes) | variables
        if any(name.startswith(EARLY) for name in variables):
            command = [sys.executable, "-c", ANSWER + text]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([ANSWER + text, environment]) + "\n")
            self._process.stdin.flush()
            code, out, err = json.loads(self._process.stdout.readline())
        assert code == 0, err[-3000:]
        return json.loads(out.splitlines()[-1])

    def close(self) -> None:
        self._process.communicate()


def _environment(card: str, total_bytes: int | None) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return os.environ | phantom.environment(card, total_bytes=total_bytes) | {"PYTHONPATH": path}


def _serve() -> None:
    for name in MODULES:
        __import__(name)
    for line in sys.stdin:
        text, environment = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if not child:
                _become(text, environment, out.fileno(), err.fileno())
            status = os.waitpid(child, 0)[1]
            said = [io.TextIOWrapper(file).read() for file in (out, err) if not file.seek(0)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *said]), flush=True)


def _become(text: str, environment: dict[str, str], out: int, err: int) -> None:
    """Run the text as the program of this process, and end it."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    code = 1
    try:
        exec(compile(text, "<string>", "exec"), vars(main))  # noqa: S102  (it is a test of ours)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
