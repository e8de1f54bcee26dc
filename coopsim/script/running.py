"""Keep track of the processes of runs, so that one thread can end those that other threads wait for."""

import contextlib
import os
import signal
import subprocess
import threading


class Running:
    """The processes that runs have started and that have not ended. It is given to `run` by a main thread that is to
    end them at Ctrl-C, which only the main thread receives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders: dict[subprocess.Popen[bytes], bool] = {}
        self._ended = False

    def add(self, child: "subprocess.Popen[bytes]", *, leads_group: bool = False) -> None:
        """Add a process that was started; after `end_all` it is killed at once.

        `leads_group`: it leads a process group, which is killed as a whole.
        """
        with self._lock:
            self._leaders[child] = leads_group
            if self._ended:
                _kill(child, group=leads_group)

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """Kill a process that was added, if it still runs, wait for its end, and forget it."""
        with self._lock:
            _kill(child, group=self._leaders.pop(child))
        child.wait()

    def end_all(self) -> None:
        """Kill all processes, and from now on each that is added, without waiting for them."""
        with self._lock:
            self._ended = True
            for child, group in self._leaders.items():
                _kill(child, group=group)


def _kill(child: "subprocess.Popen[bytes]", *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
