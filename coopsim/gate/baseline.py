"""Read and write a baseline: a file of accepted peaks, which is committed with the code."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from coopsim.files import replacing
from coopsim.gate.peaks import Peaks
from coopsim.types import CoopsimError

_VERSION = 1


@dataclass
class Baseline:
    """Peaks by the name of a run: its command, or a test's id."""

    path: Path
    runs: dict[str, Peaks] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> "Baseline":
        """Read a baseline from a file; an empty one if there is no file. Raises CoopsimError if it is no baseline."""
        path = Path(path)
        if not path.exists():
            return cls(path)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["coopsim_baseline"] != _VERSION:
                raise CoopsimError(f"{path}: a baseline of another version of coopsim; write it anew with --update")
            return cls(path, {str(name): Peaks.from_json(one) for name, one in found["runs"].items()})
        except OSError as e:
            raise CoopsimError(f"{path}: {e.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CoopsimError(f"{path}: not a baseline of coopsim's; write one with --update") from None

    def write(self) -> None:
        """Write the file, atomically. The same runs give the same bytes."""
        runs = {name: peaks.to_json() for name, peaks in sorted(self.runs.items())}
        text = json.dumps({"coopsim_baseline": _VERSION, "runs": runs}, indent=1, ensure_ascii=False)
        with replacing(self.path) as part:
            part.write_text(f"{text}\n", encoding="utf-8")
