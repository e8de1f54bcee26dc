"""What has been measured so far, in a file beside the card file: JSON lines, the first of which says of what."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from coopsim.base.files import target
from coopsim.base.types import CoopsimError


class CalibrationJournal:
    """The rows of each part, by key, in `file`.part; those of another card, or of other versions, are dropped.

    CoopsimError if `file` cannot be written.
    """

    def __init__(self, file: str | Path) -> None:
        real = target(file)
        self.path = real.with_name(f"{real.name}.part")
        self.card: dict[str, Any] = {}
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}
        if self.path.is_file():
            self._read()

    def _read(self) -> None:
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):  # an interruption may have cut off a line
                self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        if "card" in entry:
            self.card, self._rows = dict(entry["card"]), {}
        else:
            self._rows.setdefault(entry["part"], {})[entry["key"]] = entry

    def begin(self, card: dict[str, Any]) -> bool:
        """Say which card this is, and with what it is measured. Return whether rows of another were dropped."""
        if card == self.card:
            return False
        dropped = bool(self._rows)
        self.card, self._rows = card, {}
        self._write(json.dumps({"card": card}) + "\n", "w")
        return dropped

    def add(self, part: str, entry: dict[str, Any]) -> None:
        """Keep a row, {"key", "row"}, or why there is none, {"key", "failed"}."""
        entry = {"part": part} | entry
        self._take(entry)
        self._write(json.dumps(entry) + "\n", "a")

    def _write(self, text: str, mode: str) -> None:
        try:
            if mode == "a" and self.path.stat().st_size and not self._ends_whole():
                text = "\n" + text
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as e:
            raise CoopsimError(f"{self.path}: cannot be written ({e.strerror})") from None

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def done(self, part: str) -> list[str]:
        """Return the keys of what has been measured of a part, or cannot be."""
        return list(self._rows.get(part, {}))

    def rows(self, part: str) -> list[dict[str, Any]]:
        """Return the rows of a part."""
        return [entry["row"] for entry in self._rows.get(part, {}).values() if "row" in entry]

    def failed(self) -> dict[str, str]:
        """Return why measurements could not be made, by key."""
        every = (entry for of in self._rows.values() for entry in of.values())
        return {entry["key"]: entry["failed"] for entry in every if "failed" in entry}

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
