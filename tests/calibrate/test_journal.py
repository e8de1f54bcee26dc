"""What a calibration keeps while it runs."""

from pathlib import Path

from coopsim.calibrate.journal import CalibrationJournal

CARD = {"title": "A", "torch": "2.14.1"}


def test_rows_are_kept(tmp_path: Path) -> None:
    journal = CalibrationJournal(tmp_path / "card.json")
    assert not journal.begin(CARD)
    journal.add("prices", {"key": "add", "row": {"us": 3.5}})
    journal.add("prices", {"key": "mm", "failed": "out of memory"})
    again = CalibrationJournal(tmp_path / "card.json")
    assert not again.begin(CARD)
    assert again.done("prices") == ["add", "mm"]
    assert again.rows("prices") == [{"us": 3.5}]
    assert again.failed() == {"mm": "out of memory"}
    again.remove()
    assert not list(tmp_path.iterdir())


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    """What an interruption left of a line is measured again, and the rows after it count."""
    journal = CalibrationJournal(tmp_path / "card.json")
    journal.begin(CARD)
    journal.add("prices", {"key": "add", "row": {"us": 3.5}})
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"part": "prices", "key": "mm", "ro')
    again = CalibrationJournal(tmp_path / "card.json")
    assert again.done("prices") == ["add"]
    again.add("prices", {"key": "mm", "row": {"us": 9.0}})
    assert CalibrationJournal(tmp_path / "card.json").done("prices") == ["add", "mm"]


def test_another_card(tmp_path: Path) -> None:
    journal = CalibrationJournal(tmp_path / "card.json")
    journal.begin(CARD)
    journal.add("prices", {"key": "add", "row": {"us": 3.5}})
    again = CalibrationJournal(tmp_path / "card.json")
    assert again.begin(CARD | {"torch": "2.13.0"})
    assert again.done("prices") == []
    assert CalibrationJournal(tmp_path / "card.json").card["torch"] == "2.13.0"
