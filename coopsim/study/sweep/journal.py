"""The rows that are done, in a file beside the table to be: what a sweep that was cut off goes on from."""

import errno
import fcntl
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from coopsim.base.files import why_not
from coopsim.base.types import CoopsimError

Row = dict[str, Any]
SWEEP_VERSION = 5


class Journal:
    """A JSON line a row, under a line that names what is swept. A line cut short by a kill or a full disk is dropped.

    CoopsimError if the file belongs to another sweep, is damaged, cannot be written, or has a sweep at work on it.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.rows = path, dict[str, Row]()
        try:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as e:
            raise self._unwritable(e) from None
        try:
            self._lock()
            self._read(key)
        except BaseException:
            os.close(self.file)
            raise

    def _lock(self) -> None:
        """Two sweeps that append to one file would both do all the work, and one remove what the other writes to."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CoopsimError(f"{self.path} is in use: another coopsim is at work on it") from None
        except OSError:  # a file system without locks
            pass

    def _read(self, key: str) -> None:
        with os.fdopen(os.dup(self.file), "rb") as file:
            whole = [line for line in file if line.endswith(b"\n")]
        head, *entries = [self._entry(line) for line in whole] or [{"sweep": key}]
        if head != {"sweep": key} and entries:
            raise CoopsimError(
                f"{self.path} holds rows of another sweep; finish that one, delete the file, or choose another -o"
            )
        kept = sum(map(len, whole)) if head == {"sweep": key} else 0
        self.rows = {entry["point"]: entry["row"] for entry in entries}
        os.ftruncate(self.file, kept)
        if not kept:
            self._line({"sweep": key})

    def _entry(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and (
                entry.keys() == {"sweep"} or (isinstance(entry["row"], dict) and isinstance(entry["point"], str | int))
            ):
                return entry
        except (ValueError, KeyError):
            pass
        raise CoopsimError(f"{self.path} is damaged; delete it, or choose another -o")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.file)

    def append(self, point: str, row: Row) -> None:
        """Keep the row of a point. CoopsimError if it cannot be written; those before it are kept."""
        self._line({"point": point, "row": row})
        self.rows[point] = row

    def _line(self, entry: dict[str, Any]) -> None:
        data = json.dumps(entry).encode() + b"\n"
        try:
            while data:  # in one write, unless the disk fills up in the middle
                data = data[os.write(self.file, data) :]
        except OSError as e:
            raise self._unwritable(e) from None

    def _unwritable(self, e: OSError) -> CoopsimError:
        again = "; what is done is kept, start it again to go on" if self.rows else ""
        if e.errno == errno.ENOENT and not self.path.parent.is_dir():
            return CoopsimError(f"{self.path}: no such folder")
        return CoopsimError(f"{self.path}: cannot be written ({why_not(self.path, e)}){again}")

    def remove(self) -> None:
        """The table is written; the journal has served."""
        with suppress(FileNotFoundError):
            self.path.unlink()


def key(*what: Any) -> str:
    """Names what is asked for and this version of the core: rows of something else must not be mixed in.

    what: settings, points, or whatever JSON can hold. Policies count by name; the code of a user's is in `Point.id`.
    """
    from coopsim.simulate.kernel import sources
    from coopsim.version import __version__

    text = json.dumps([__version__, sources.of_replays(), SWEEP_VERSION, *what], default=lambda it: it.as_dict())
    return hashlib.sha256(text.encode()).hexdigest()[:32]
