"""Makes first plans in a process of its own while a program's steps go on. Knows no torch.

It is started with the session, so that the planner's code is loaded, and compiled if need be, before the first
question. Questions and answers are files without names, whose descriptors go by a socket, so that nobody who sends one
has to wait. They are nobody else's, and may be unpickled.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from socket import MSG_DONTWAIT, recv_fds, send_fds, socket, socketpair
from typing import Any

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
        self._socket, theirs = socketpair()
        with theirs:
            self._child = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "coopsim.live.background", str(theirs.fileno())],
                env={name: value for name, value in os.environ.items() if name not in _OF_SCRIPT},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        weakref.finalize(self, _end, self._child, os.getpid())

    @property
    def alive(self) -> bool:
        """Whether questions are answered."""
        return self._child.poll() is None

    def ask(self, signature: Signature, search: Search) -> None:
        """Ask for the first schedule of a signature, unless that is asked already, and return at once."""
        if signature not in self.asked:
            self.asked[signature] = search
            with suppress(OSError):  # it has died, and `alive` says so
                _send(self._socket, search)

    def answers(self) -> Iterator[tuple[Signature, Search, Candidate | str | None]]:
        """The searches that were answered since, each once; with None for all that never will be."""
        while self.asked:
            alive, found = self.alive, None
            try:
                found = _receive(self._socket, MSG_DONTWAIT)
            except BlockingIOError:
                if alive:
                    return
            except (EOFError, OSError):
                pass
            signature = next(iter(self.asked))
            yield signature, self.asked.pop(signature), found


def _end(child: "subprocess.Popen[bytes]", owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, whose parent goes on
        child.kill()
        child.wait()


def _send(to: socket, what: object) -> None:
    with tempfile.TemporaryFile() as file:
        pickle.dump(what, file)
        file.seek(0)
        send_fds(to, [b"."], [file.fileno()])


def _receive(by: socket, flags: int = 0) -> Any:
    """What the other process sends next. EOFError if that is over."""
    _, descriptors, *_ = recv_fds(by, 1, 1, flags)
    if not descriptors:
        raise EOFError
    with os.fdopen(descriptors[0], "rb") as file:
        return pickle.load(file)  # noqa: S301 (our own process's)


def _main(program: socket) -> None:
    """Answer questions until there are no more: then the program is over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program, which ends this process as it ends
    os.nice(5)  # the program's own threads come first
    trace = synth.chain()
    Search(trace, "foresight-offline", int(least(trace).nbytes * 1.5)).first()  # loads and compiles kernels
    with suppress(EOFError):
        while True:
            _send(program, _receive(program).first())


if __name__ == "__main__":
    _main(socket(fileno=int(sys.argv[1])))
