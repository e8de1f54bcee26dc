"""Keep a script from taking more of the host's memory than is free: it fails at its own line, with its own report.

A thread looks at what is free. It limits what the process may allocate to that, so that one allocation of more fails as
on a machine with little memory; and it ends a process that has come near the end of it bit by bit.
"""

import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from coopsim.base.text import human
from coopsim.base.types import KIB, MIB
from coopsim.phantom.control import Control

_EVERY_S = 0.1
_LEAVES = 0.02  #: the part of the host's memory that is left free, and the least
_LEAST = 256 * MIB
_GROUP = Path("/sys/fs/cgroup")


class HostLimit:
    """Guards this process, which has imported torch. Nothing is done where the host's memory is not known.

    `ended` is called with what there is to say before the process is ended (exit code 1).
    """

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guard, name="coopsim-host-limit", daemon=True)
        if free() is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop guarding, at the end of the process: before Python takes apart what the thread may be looking at."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=1)  # not for ever: it may wait for the lock of the one who stops it

    def _guard(self) -> None:
        device = Control()
        while not self._over.wait(_EVERY_S):
            found = free()
            if found is None:
                return
            left, total = found
            floor = max(int(_LEAVES * total), _LEAST)
            if left < floor:
                self._ended(f"{RAN_OUT}: {human(left)} of {human(total)} are left, and the run is ended")
                sys.stderr.flush()
                os._exit(1)
            cuda = sys.modules.get("torch.cuda")
            if cuda is not None and getattr(cuda, "is_initialized", bool)():
                device.reserve()  # of which the limit would leave too few: a script may allocate long after CUDA starts
                _limit(left - floor)


#: The beginning of what is said when the host's memory runs out.
RAN_OUT = "the host's memory runs out"


def free() -> tuple[int, int] | None:
    """The bytes of the host's memory that are free, and that there are, for this process's group; None if unknown."""
    try:
        said = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        left, total = (int(said[name].split()[0]) * KIB for name in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return None
    try:
        most = int((_GROUP / "memory.max").read_text(encoding="ascii"))
        taken = int((_GROUP / "memory.current").read_text(encoding="ascii")) - _reclaimable()
    except (OSError, ValueError):  # no limit: "max"
        return left, total
    return min(left, most - taken), min(total, most)


def _reclaimable() -> int:
    """The bytes of the group that the kernel gives back at once: files that were read, and caches of its own."""
    try:
        rows = dict(line.split() for line in (_GROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return sum(int(rows.get(name, 0)) for name in ("inactive_file", "slab_reclaimable"))
    except (OSError, ValueError):
        return 0


def ran_out(message: str) -> bool:
    """Whether an error's message says that the host's memory ran out: Python's, PyTorch's, or HostLimit's own."""
    return message.startswith(("MemoryError", RAN_OUT)) or "DefaultCPUAllocator: can't allocate memory" in message


def _limit(more: int) -> None:
    """Let this process allocate so many bytes more, in private pages that it may write."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = now + max(more, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
