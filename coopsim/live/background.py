"""Plans in a process of its own, while the program's steps go on. Knows no torch.

It is started with the session, so that the planner's code is loaded, and compiled if need be, before the first
question.
"""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from coopsim.live import schedules
from coopsim.live.schedules import Found, Search
from coopsim.live.signatures import Signature
from coopsim.run.task import FOLDER
from coopsim.trace import synth

#: Variables by which a process becomes one of the script's, or loads the phantom GPU.
_OF_SCRIPT = (FOLDER, "LD_PRELOAD", "LD_LIBRARY_PATH")


class Background:
    """Its process answers questions one after the other, and ends with this one, whatever it is doing.

    `alive` is False once it has failed: nothing is answered.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coopsim-"))  # nobody else's, so what is in it may be unpickled
        self._number = 0
        self._asked: dict[Signature, tuple[int, Search]] = {}
        environment = {name: value for name, value in os.environ.items() if name not in _OF_SCRIPT}
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "coopsim.live.background", str(self._folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._end = weakref.finalize(self, _end, self._child, self._folder, os.getpid())

    @property
    def alive(self) -> bool:
        """Whether questions are answered."""
        return self._end.alive and self._child.poll() is None

    def ask(self, signature: Signature, search: Search) -> None:
        """Ask for the first plan of a signature, and return at once. An earlier question about it is forgotten."""
        self._number += 1
        self._asked[signature] = self._number, search
        _file(self._folder, self._number, "question").write_bytes(pickle.dumps(search))
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # it has died, and `alive` says so
            self._child.stdin.write(f"{self._number}\n".encode())
            self._child.stdin.flush()

    def is_asked(self, signature: Signature | None = None) -> bool:
        """Whether a question about a signature, or any at all, has no answer yet that `answers` has given."""
        return bool(self._asked) if signature is None else signature in self._asked

    def answers(self) -> Iterator[tuple[Signature, Search, Found | None]]:
        """The searches that were answered since, each once; with None for all that never will be."""
        alive = self.alive
        for signature, (number, search) in list(self._asked.items()):
            file = _file(self._folder, number, "answer")
            if file.exists():
                found = pickle.loads(file.read_bytes())  # noqa: S301 (our own child's)
                file.unlink()
            elif alive:
                continue
            else:
                found = None
            del self._asked[signature]
            yield signature, search, found

    def end(self) -> None:
        """End the process."""
        self._end()


def _file(folder: Path, number: int, what: str) -> Path:
    return folder / f"{number}.{what}"


def _end(child: "subprocess.Popen[bytes]", folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, whose parent goes on
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _main(folder: Path) -> None:
    """Answer the questions whose numbers come by stdin, until its end: then the program is over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program, which ends this process as it ends
    os.nice(5)  # the program's own threads come first
    trace = synth.chain()
    schedules.find(trace, "foresight-offline", int(schedules.least(trace).nbytes * 1.5))  # loads and compiles kernels
    for line in sys.stdin:
        question = _file(folder, int(line), "question")
        found = pickle.loads(question.read_bytes()).first()  # noqa: S301 (our own parent's)
        question.unlink()
        part = _file(folder, int(line), "part")
        part.write_bytes(pickle.dumps(found))
        part.rename(_file(folder, int(line), "answer"))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
