"""Processes of this machine, by /proc, and waiting for what they do."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path


def until(fact: Callable[[], object], seconds: float = 60, every: float = 0.02) -> bool:
    """Ask until something holds; whether it did before so many seconds had passed."""
    end = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return any(found == pid for found, _ in _running())


def session(leader: int) -> list[int]:
    """The processes of a session."""
    return [pid for pid, fields in _running() if int(fields[3]) == leader]


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parents = {found: int(fields[1]) for found, fields in _running()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def command_of(pid: int) -> list[str]:
    """The words that a process was started with; none if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


def processor_seconds(pid: int) -> float:
    """How long a process has computed; 0 if it is gone."""
    with suppress(OSError):
        fields = _fields(Path(f"/proc/{pid}/stat"))
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _running() -> Iterator[tuple[int, list[str]]]:
    """Processes that are no zombies: the number, and the fields of /proc/PID/stat from the state on."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = _fields(stat)
            if fields[0] != "Z":
                yield int(stat.parent.name), fields


def _fields(stat: Path) -> list[str]:
    return stat.read_text().rpartition(")")[2].split()
