"""Find which lines of a program hold the memory at its peak."""

import linecache
import os
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from coopsim.trace.snapshot.model import Snapshot, StackFrame
from coopsim.trace.snapshot.place import is_own
from coopsim.trace.snapshot.rewind import rewind

BACKWARD = "a backward pass"  #: title of memory that was requested by no line of the user's code


class GateLine(NamedTuple):
    """A line of the user's code, by its `text` and not its number, so that lines may be inserted above it."""

    file: str
    function: str
    text: str

    @property
    def title(self) -> str:
        """The line as it is shown."""
        return f"{self.file} in {self.function}: {self.text}" if self.file else BACKWARD


def at_peak(snapshot: Snapshot) -> tuple[dict[GateLine, int], dict[GateLine, int]]:
    """Return the requested bytes by line at the peak of allocated memory, the most first, and the number of each line.

    `Line("", "", "")` is memory that no line of the user's code requested. Its number is 0, as is that of a frame
    without.
    """
    held = {b.address: (b.requested_bytes, b.frames) for s in rewind(snapshot) for b in s.blocks if b.state != "free"}
    most = now = sum(nbytes for nbytes, _ in held.values())
    after = 0  # number of events before the peak
    sizes = {address: nbytes for address, (nbytes, _) in held.items()}
    for i, event in enumerate(snapshot.events, 1):
        if event.action == "alloc":
            sizes[event.address] = event.nbytes
            now += event.nbytes
        elif event.action == "free_requested":
            now -= sizes.pop(event.address, 0)
        if now > most:
            most, after = now, i
    for event in snapshot.events[:after]:
        if event.action == "alloc":
            held[event.address] = event.nbytes, event.frames
        elif event.action == "free_requested":
            held.pop(event.address, None)
    found: Counter[GateLine] = Counter()
    numbers: dict[GateLine, int] = {}
    for nbytes, frames in held.values():
        line, number = _line(frames)
        found[line] += nbytes
        numbers[line] = min(number, numbers.get(line, number))
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))), numbers


def _line(frames: Iterable[StackFrame]) -> tuple[GateLine, int]:
    frame = next((f for f in frames if is_own(f)), None)
    if frame is None:
        return GateLine("", "", ""), 0
    file = os.path.relpath(frame.file)
    shown = file if not file.startswith("..") else os.path.basename(frame.file)
    linecache.checkcache(frame.file)
    text = linecache.getline(frame.file, frame.line).strip() if frame.line else ""
    return GateLine(shown, frame.name, text), frame.line
