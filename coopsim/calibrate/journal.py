"""What has been measured so far, in a file beside the card file, whose first line says of which card."""

from pathlib import Path
from typing import Any

from coopsim.base.files import target
from coopsim.base.journal import Entry, LineJournal


class CalibrationJournal(LineJournal):
    """The rows of each part, by key, in `file`.part; those of another card, or of other versions, are dropped."""

    def __init__(self, file: str | Path) -> None:
        self.card: dict[str, Any] = {}
        self._rows: dict[str, dict[str, Entry]] = {}
        real = target(file)
        super().__init__(real.with_name(f"{real.name}.part"))

    def take(self, entries: list[Entry]) -> None:
        """See LineJournal."""
        if not entries:
            return
        try:
            self.card = entries[0]["card"]
            for entry in entries[1:]:
                self._rows.setdefault(entry["part"], {})[entry["key"]] = entry
        except KeyError:
            raise self.damaged() from None
        self.go_on()

    def begin_card(self, card: dict[str, Any]) -> bool:
        """Say which card this is, and with what it is measured. Return whether rows of another were dropped."""
        if card == self.card:
            return False
        dropped = bool(self._rows)
        self.card, self._rows = card, {}
        self.begin({"card": card})
        return dropped

    def add(self, part: str, entry: Entry) -> None:
        """Keep a row, {"key", "row"}, or why there is none, {"key", "failed"}."""
        entry = {"part": part} | entry
        self._rows.setdefault(part, {})[entry["key"]] = entry
        self.write(entry, sync=True)

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
