"""Pages are short enough to be read."""

from pathlib import Path

import pytest

from tests.conftest import ROOT

from .blocks import PAGES


def test_the_readme_has_at_most_900_words() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_page_has_more_than_250_lines(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_table_has_more_than_40_rows(page: Path) -> None:
    """Longer ones are CSV files with a link."""
    runs = "".join("|" if line.startswith("|") else " " for line in page.read_text(encoding="utf-8").splitlines())
    assert max(map(len, runs.split()), default=0) <= 42  # with a head and the line below it
