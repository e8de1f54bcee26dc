"""Peaks of a run, and a baseline: a file of accepted peaks, which is committed with the code."""

import fcntl
import json
import linecache
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from coopsim.base.files import replacing, target
from coopsim.base.types import CoopsimError
from coopsim.run import Report
from coopsim.trace.snapshot.model import Snapshot, StackFrame, is_own
from coopsim.trace.snapshot.rewind import rewind

BACKWARD = "a backward pass"  #: title of memory that was requested by no line of the user's code
_FIGURES = {"allocated": "peak_allocated_bytes", "reserved": "peak_reserved_bytes", "device": "peak_device_bytes"}


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


@dataclass(frozen=True)
class BaselinePeaks:
    """Peaks in bytes: `allocated` and `reserved` of PyTorch's allocator, `device` with the context and NCCL's memory.

    `kinds` and `lines` break down the peak of allocated memory. `versions` are those of the packages it depends on.
    """

    gpu: str
    allocated: int
    reserved: int
    device: int
    kinds: dict[str, int] = field(default_factory=dict)
    lines: dict[GateLine, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report, lines: dict[GateLine, int]) -> "BaselinePeaks":
        """Return the peaks of a run, given its report and what lines hold at the peak (at_peak)."""
        figures = {name: int(getattr(report, of)) for name, of in _FIGURES.items()}
        kinds = {kind: nbytes for kind, nbytes in report.peak_by_kind.items() if nbytes}
        return cls(report.gpu, **figures, kinds=kinds, lines=lines, versions=dict(sorted(report.versions.items())))

    def to_json(self) -> dict[str, Any]:
        """Return the peaks for the JSON of a baseline."""
        figures: dict[str, Any] = {"gpu": self.gpu, "versions": self.versions}
        figures |= {name: getattr(self, name) for name in _FIGURES} | {"kinds": self.kinds}
        return figures | {"lines": [[*line, nbytes] for line, nbytes in self.lines.items()]}

    @classmethod
    def from_json(cls, found: Any) -> "BaselinePeaks":
        """Read the peaks from the JSON of a baseline. Raises KeyError, TypeError or ValueError if it is malformed."""
        lines = {GateLine(str(file), str(function), str(text)): int(n) for file, function, text, n in found["lines"]}
        kinds = {str(kind): int(n) for kind, n in found["kinds"].items()}
        versions = {str(name): str(version) for name, version in found["versions"].items()}
        figures = {name: int(found[name]) for name in _FIGURES}
        return cls(str(found["gpu"]), **figures, kinds=kinds, lines=lines, versions=versions)


_VERSION = 1


@dataclass
class Baseline:
    """Peaks by the name of a run: its command, or a test's id."""

    path: Path
    runs: dict[str, BaselinePeaks] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path, *, update: bool = False) -> "Baseline":
        """Read a baseline from a file; with `update`, one that can be written there, and empty if there is no file.

        Raises CoopsimError if there is none, if it is no baseline, and if it could not be written: before a long run.
        """
        if not str(path):
            raise CoopsimError("the name of a baseline's file is empty")
        path = Path(path)
        if update and not target(path).exists():
            return cls(path)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["coopsim_baseline"] != _VERSION:
                raise CoopsimError(f"{path}: a baseline of another version of coopsim; remove it, and write it anew")
            return cls(path, {str(name): BaselinePeaks.from_json(one) for name, one in found["runs"].items()})
        except FileNotFoundError:
            raise CoopsimError(f"{path}: no such baseline; write one with --update") from None
        except OSError as e:
            raise CoopsimError(f"{path}: {e.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CoopsimError(f"{path}: not a baseline of coopsim's; remove it, and write one with --update") from None

    def write(self, name: str) -> None:
        """Write the peaks of one run to the file, atomically; runs that others have written there meanwhile are kept.

        The same runs give the same bytes.
        """
        with _alone_in(target(self.path).parent):
            self.runs = Baseline.read(self.path, update=True).runs | {name: self.runs[name]}
            runs = {key: peaks.to_json() for key, peaks in sorted(self.runs.items())}
            text = json.dumps({"coopsim_baseline": _VERSION, "runs": runs}, indent=1, ensure_ascii=False)
            with replacing(self.path) as part:
                part.write_text(f"{text}\n", encoding="utf-8")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Within the context, other processes wait that would write a baseline in the same folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
