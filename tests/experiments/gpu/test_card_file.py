"""The card file that coopsim ships is the one that the results make."""

from coopsim.cards import card_file
from experiments.gpu.card_file import FOLDER, OUT, content


def test_shipped() -> None:
    assert OUT.read_text(encoding="utf-8") == card_file.text(content(FOLDER))
