"""What is done so far, as JSON lines in a file beside the one to be: from it, work that was cut off goes on."""

import errno
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from coopsim.base.files import why_not
from coopsim.base.types import CoopsimError

Entry = dict[str, Any]


class LineJournal:
    """An object a line; the first says of what the others are. A line cut short by a kill or a full disk is dropped.

    To be used as a context manager, which lets go of the file. CoopsimError if the file is damaged, cannot be written,
    or another process is at work on it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lines = path, 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as e:
            raise self._unwritable(e) from None
        try:
            self._lock()
            with os.fdopen(os.dup(self._file), "rb") as file:
                whole = [line for line in file if line.endswith(b"\n")]
            self._lines, self._whole = len(whole), sum(map(len, whole))
            self.take([self._parsed(line) for line in whole])
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        """Two that append to one file would both do all the work, and one remove what the other writes to."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CoopsimError(f"{self.path} is in use: another coopsim is at work on it") from None
        except OSError:  # a file system without locks
            pass

    def _parsed(self, line: bytes) -> Entry:
        with suppress(ValueError):
            if isinstance(entry := json.loads(line), dict):
                return entry
        raise self.damaged()

    def take(self, entries: list[Entry]) -> None:
        """Look at what is in the file, which may raise CoopsimError, and then go on with it or begin anew."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Keep the lines that are there."""
        os.ftruncate(self._file, self._whole)

    def begin(self, head: Entry) -> None:
        """Drop the lines that are there, and write the first one."""
        os.ftruncate(self._file, 0)
        self._lines = 0
        self.write(head)

    def write(self, entry: Entry, *, sync: bool = False) -> None:
        """Append a line; `sync`: so that it outlasts a crash of the machine."""
        data = json.dumps(entry).encode() + b"\n"
        try:
            while data:  # in one write, unless the disk fills up in the middle
                data = data[os.write(self._file, data) :]
            if sync:
                os.fsync(self._file)
        except OSError as e:
            raise self._unwritable(e) from None
        self._lines += 1

    def damaged(self) -> CoopsimError:
        """Return the error for a file with other contents than a journal's."""
        return CoopsimError(f"{self.path} is damaged; delete it, or choose another -o")

    def _unwritable(self, e: OSError) -> CoopsimError:
        again = "; what is done is kept, start it again to go on" if self._lines > 1 else ""
        if e.errno == errno.ENOENT and not self.path.parent.is_dir():
            return CoopsimError(f"{self.path}: no such folder")
        return CoopsimError(f"{self.path}: cannot be written ({why_not(self.path, e)}){again}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._lines:
            self.remove()
        os.close(self._file)

    def remove(self) -> None:
        """What the lines are for is written; the journal has served."""
        self.path.unlink(missing_ok=True)
