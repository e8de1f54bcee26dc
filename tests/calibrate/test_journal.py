"""What a calibration keeps while it runs."""

from pathlib import Path

import pytest

from coopsim.base.types import CoopsimError
from coopsim.calibrate.journal import CalibrationJournal

CARD = {"title": "A", "torch": "2.14.1"}


def measured(folder: Path) -> Path:
    """A calibration that was cut off after an op."""
    with CalibrationJournal(folder / "card.json") as journal:
        assert not journal.begin_card(CARD)
        journal.add("prices", {"key": "add", "row": {"us": 3.5}})
        return journal.path


def test_rows_are_kept(tmp_path: Path) -> None:
    measured(tmp_path)
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert not again.begin_card(CARD)
        again.add("prices", {"key": "mm", "failed": "out of memory"})
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert again.done("prices") == ["add", "mm"]
        assert again.rows("prices") == [{"us": 3.5}]
        assert again.failed() == {"mm": "out of memory"}
        again.remove()
    assert not list(tmp_path.iterdir())


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    """What an interruption left of a line is measured again, and the rows after it count."""
    with measured(tmp_path).open("a", encoding="utf-8") as file:
        file.write('{"part": "prices", "key": "mm", "ro')
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert again.done("prices") == ["add"]
        again.add("prices", {"key": "mm", "row": {"us": 9.0}})
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert again.done("prices") == ["add", "mm"]


def test_another_card(tmp_path: Path) -> None:
    measured(tmp_path)
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert again.begin_card(CARD | {"torch": "2.13.0"})
        assert again.done("prices") == []
    with CalibrationJournal(tmp_path / "card.json") as again:
        assert again.card["torch"] == "2.13.0"


def test_two_do_not_share_one(tmp_path: Path) -> None:
    in_use = pytest.raises(CoopsimError, match="another coopsim is at work")
    with CalibrationJournal(tmp_path / "card.json"), in_use:
        CalibrationJournal(tmp_path / "card.json")
    assert not list(tmp_path.iterdir())  # nothing was measured
