"""Makes first plans in a process of its own while a program's steps go on. Knows no torch.

It is started with the session, so that the planner's code is loaded, and compiled if need be, before the first
question. Questions and answers are pickled: the pipe is nobody else's.
"""

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue

from coopsim.live.schedules import Search, least
from coopsim.live.signatures import Candidate, Signature
from coopsim.run.task import FOLDER
from coopsim.trace import synth

#: Variables by which a process becomes one of the script's, or loads the phantom GPU.
_OF_SCRIPT = (FOLDER, "LD_PRELOAD", "LD_LIBRARY_PATH")


class Background:
    """Its process answers questions one after the other, and ends with this one, whatever it is doing."""

    def __init__(self) -> None:
        #: Questions that have no answer yet that `answers` has given, in their order, in which answers come.
        self.asked: dict[Signature, Search] = {}
        self._pipe, theirs = Pipe()
        with theirs:
            self._child = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "coopsim.live.background", str(theirs.fileno())],
                env={name: value for name, value in os.environ.items() if name not in _OF_SCRIPT},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._end = weakref.finalize(self, _end, self._child, os.getpid())

    @property
    def alive(self) -> bool:
        """Whether questions are answered."""
        return self._child.poll() is None

    def ask(self, signature: Signature, search: Search) -> None:
        """Ask for the first schedule of a signature, unless that is asked already, and return at once."""
        if signature in self.asked:
            return
        self.asked[signature] = search
        with suppress(OSError):  # it has died, and `alive` says so
            self._pipe.send(search)

    def answers(self) -> Iterator[tuple[Signature, Search, Candidate | str | None]]:
        """The searches that were answered since, each once; with None for all that never will be."""
        while self.asked:
            try:
                if not self._pipe.poll() and self.alive:
                    return
                found = self._pipe.recv()
            except (EOFError, OSError):
                found = None
            signature = next(iter(self.asked))
            yield signature, self.asked.pop(signature), found

    def end(self) -> None:
        """End the process."""
        self._end()


def _end(child: "subprocess.Popen[bytes]", owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, whose parent goes on
        child.kill()
        child.wait()


def _main(pipe: Connection) -> None:
    """Answer what comes by the pipe, until its end: then the program is over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program, which ends this process as it ends
    os.nice(5)  # the program's own threads come first
    questions: SimpleQueue[Search] = SimpleQueue()

    def listen() -> None:  # also while a plan is made, so that nobody who asks has to wait
        try:
            while True:
                questions.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    trace = synth.chain()
    Search(trace, "foresight-offline", int(least(trace).nbytes * 1.5)).first()  # loads and compiles kernels
    while True:
        pipe.send(questions.get().first())


if __name__ == "__main__":
    _main(Connection(int(sys.argv[1])))
