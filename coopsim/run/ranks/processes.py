"""Run the processes of several ranks, and make sure that all of them end."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from coopsim.run.launch.start import Running

#: Variable with the folder through which ranks exchange messages (phantom/csrc/nccl_peers.c).
PEERS = "COOPSIM_PHANTOM_PEERS"
#: Approximate host memory of a rank's process: Python, PyTorch and its libraries (docs/many-ranks.md).
_HOST_GIB = 0.6
_POLL_S = 0.05
#: Time after the first failure of ranks that need each other, in which others may fail for reasons of their own.
_GRACE_S = 5.0


@dataclass
class Process:
    """A command to run, and its environment. `code` is its exit code; None if it was killed with the others."""

    words: list[str]
    variables: dict[str, str]
    stdout: int | IO[bytes] | None = None
    stderr: int | IO[bytes] | None = None
    code: int | None = field(default=None, init=False)


def needs(ranks: int, *, together: bool) -> str:
    """Return, in words, how much host memory and processor time it takes to run `ranks` ranks.

    `together`: all at once; else as many as there are processors.
    """
    at_once = _at_once(ranks, together=together)
    return (
        f"{ranks} ranks, {at_once} at once: about {_HOST_GIB * at_once:.1f} GiB of host memory, and {ranks} times one "
        f"rank's processor time on {os.cpu_count()} processors"
    )


def run_all(processes: Sequence[Process], running: Running, *, together: bool) -> None:
    """Run processes until all have ended, as many at once as there are processors, and set their exit codes.

    `together`: they need each other, so all run at once, and if one fails, all are killed some seconds later. Each is
    added to `running` when it starts.
    """
    at_once = _at_once(len(processes), together=together)
    children: dict[int, subprocess.Popen[bytes]] = {}
    waiting = list(range(len(processes)))
    deadline = None
    with _ended(children, running):
        while waiting or children:
            while waiting and len(children) < at_once:
                child = _start(processes[waiting[0]])
                running.add(child, leads_group=True)
                children[waiting[0]] = child
                del waiting[0]
            for i, child in list(children.items()):
                if child.poll() is None:
                    continue
                running.end(children.pop(i))
                processes[i].code = child.returncode
                if child.returncode and together and deadline is None:
                    deadline = time.monotonic() + _GRACE_S
            if deadline is not None and time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


def _at_once(ranks: int, *, together: bool) -> int:
    return ranks if together else min(ranks, os.cpu_count() or 1)


def _start(process: Process) -> "subprocess.Popen[bytes]":
    """Start a process in a process group of its own, so that its children can be killed with it."""
    return subprocess.Popen(  # noqa: S603
        process.words,
        env=process.variables,
        stdin=subprocess.DEVNULL,
        stdout=process.stdout,
        stderr=process.stderr,
        process_group=0,
    )


@contextlib.contextmanager
def _ended(children: dict[int, "subprocess.Popen[bytes]"], running: Running) -> Iterator[None]:
    try:
        yield
    finally:
        for child in children.values():
            running.end(child)
