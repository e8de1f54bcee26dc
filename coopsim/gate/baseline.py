"""Read and write a baseline: a file of accepted peaks, which is committed with the code."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coopsim.files import replacing, target
from coopsim.gate.peaks import Peaks
from coopsim.types import CoopsimError

_VERSION = 1


@dataclass
class Baseline:
    """Peaks by the name of a run: its command, or a test's id."""

    path: Path
    runs: dict[str, Peaks] = field(default_factory=dict)

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
            return cls(path, {str(name): Peaks.from_json(one) for name, one in found["runs"].items()})
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
