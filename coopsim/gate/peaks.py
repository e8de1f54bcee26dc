"""The peaks of a run that are compared with a limit or a baseline."""

from dataclasses import dataclass, field
from typing import Any

from coopsim.gate.lines import Line
from coopsim.script import Report

_FIGURES = {
    "allocated": "peak_allocated_bytes",
    "reserved": "peak_reserved_bytes",
    "device": "peak_device_bytes",
}


@dataclass(frozen=True)
class Peaks:
    """Peaks in bytes: `allocated` and `reserved` of PyTorch's allocator, `device` with the context and NCCL's memory.

    `kinds` and `lines` break down the peak of allocated memory. `versions` are those of the packages it depends on.
    """

    gpu: str
    allocated: int
    reserved: int
    device: int
    kinds: dict[str, int] = field(default_factory=dict)
    lines: dict[Line, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report, lines: dict[Line, int]) -> "Peaks":
        """Return the peaks of a run, given its report and what lines hold at the peak (lines.at_peak)."""
        figures = {name: int(getattr(report, of)) for name, of in _FIGURES.items()}
        kinds = {kind: nbytes for kind, nbytes in report.peak_by_kind.items() if nbytes}
        return cls(report.gpu, **figures, kinds=kinds, lines=lines, versions=dict(sorted(report.versions.items())))

    def to_json(self) -> dict[str, Any]:
        """Return the peaks for the JSON of a baseline."""
        figures: dict[str, Any] = {"gpu": self.gpu, "versions": self.versions}
        figures |= {name: getattr(self, name) for name in _FIGURES} | {"kinds": self.kinds}
        return figures | {"lines": [[*line, nbytes] for line, nbytes in self.lines.items()]}

    @classmethod
    def from_json(cls, found: Any) -> "Peaks":
        """Read the peaks from the JSON of a baseline. Raises KeyError, TypeError or ValueError if it is malformed."""
        lines = {Line(str(file), str(function), str(text)): int(n) for file, function, text, n in found["lines"]}
        kinds = {str(kind): int(n) for kind, n in found["kinds"].items()}
        versions = {str(name): str(version) for name, version in found["versions"].items()}
        figures = {name: int(found[name]) for name in _FIGURES}
        return cls(str(found["gpu"]), **figures, kinds=kinds, lines=lines, versions=versions)
