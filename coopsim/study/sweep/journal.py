"""The rows that are done, in a file beside the table to be: what a sweep that was cut off goes on from."""

import hashlib
import json
from pathlib import Path
from typing import Any

from coopsim.base.journal import Entry, LineJournal
from coopsim.base.types import CoopsimError

Row = dict[str, Any]
SWEEP_VERSION = 5


class Journal(LineJournal):
    """The rows of points, under a line that names what is swept. CoopsimError if the file is of another sweep."""

    def __init__(self, path: Path, key: str) -> None:
        self.rows: dict[str, Row] = {}
        self._head = {"sweep": key}
        super().__init__(path)

    def take(self, entries: list[Entry]) -> None:
        """See LineJournal."""
        head, *rows = entries or [{}]
        if not all(isinstance(e.get("row"), dict) and isinstance(e.get("point"), str | int) for e in rows) or (
            entries and head.keys() != {"sweep"}
        ):
            raise self.damaged()
        if head != self._head and rows:
            raise CoopsimError(
                f"{self.path} holds rows of another sweep; finish that one, delete the file, or choose another -o"
            )
        self.rows = {entry["point"]: entry["row"] for entry in rows}
        if head == self._head:
            self.go_on()
        else:
            self.begin(self._head)

    def append(self, point: str, row: Row) -> None:
        """Keep the row of a point. CoopsimError if it cannot be written; those before it are kept."""
        self.write({"point": point, "row": row})
        self.rows[point] = row


def key(*what: Any) -> str:
    """Names what is asked for and this version of the core: rows of something else must not be mixed in.

    what: settings, points, or whatever JSON can hold. Policies count by name; the code of a user's is in `Point.id`.
    """
    from coopsim.simulate.kernel import sources
    from coopsim.version import __version__

    text = json.dumps([__version__, sources.of_replays(), SWEEP_VERSION, *what], default=lambda it: it.as_dict())
    return hashlib.sha256(text.encode()).hexdigest()[:32]
