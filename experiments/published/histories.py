"""Memory snapshots of real cards: is every request served as recorded, and at its address?"""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coopsim.base.types import CoopsimError
from coopsim.fitting.advise.selfcheck import best
from coopsim.trace.snapshot import read as read_snapshot
from coopsim.trace.snapshot import require_history
from coopsim.trace.snapshot.requests import device_bytes, of_snapshot


@dataclass(frozen=True)
class History:
    """requests: of the history. agreeing: as many, from the first on, as many bytes reserved after each as recorded.

    placed: those at their recorded address. skipped: why the file was not compared, else "".
    """

    name: str
    written_by: str
    requests: int = 0
    agreeing: int = 0
    placed: int = 0
    skipped: str = ""


def read(folder: Path) -> Iterator[History]:
    """Of every *.pickle and *.pickle.gz of a folder."""
    files = sorted([*folder.glob("*.pickle"), *folder.glob("*.pickle.gz")])
    if not files:
        raise CoopsimError(f"{folder}: no *.pickle or *.pickle.gz")
    with tempfile.TemporaryDirectory() as scratch:
        for file in files:
            plain = file
            if file.suffix == ".gz":
                plain = Path(scratch) / file.stem
                with gzip.open(file) as packed, plain.open("wb") as out:
                    shutil.copyfileobj(packed, out)
            yield _history(plain)
            if plain != file:
                plain.unlink()


def _history(file: Path) -> History:
    try:
        snapshot = read_snapshot(file)
        require_history(snapshot)
        total = device_bytes(snapshot)
        found = best(snapshot, of_snapshot(snapshot, total_bytes=total), total_bytes=total)
    except CoopsimError as e:
        return History(file.stem, "", skipped=str(e))
    return History(file.stem, found.written_by.text(), found.requests, found.agreeing, found.placed)
