"""The processes of runs that are under way, so that a thread can end those that other threads wait for."""

import contextlib
import os
import signal
import subprocess
import threading


class Running:
    """What some runs have started and not yet seen end. Given to `run`; Ctrl-C reaches the main thread alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders: dict[subprocess.Popen[bytes], bool] = {}
        self._ended = False

    def add(self, child: "subprocess.Popen[bytes]", *, leads_group: bool = False) -> None:
        """A process was started. leads_group: it leads a process group, and all of that is ended with it."""
        with self._lock:
            self._leaders[child] = leads_group
            if self._ended:
                _kill(child, group=leads_group)

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """End one that was added, if it has not ended, and wait for it."""
        with self._lock:
            _kill(child, group=self._leaders.pop(child))
        child.wait()

    def end_all(self) -> None:
        """End all that there are, and from now on each as soon as it is added. Nobody is waited for."""
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
