"""Pages are short enough to be read."""

from pathlib import Path

from tests.conftest import ROOT

from .blocks import PAGES


def test_the_readme_has_at_most_900_words() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def lines(page: Path) -> list[str]:
    return page.read_text(encoding="utf-8").splitlines()


def test_no_page_has_more_than_250_lines() -> None:
    found = {str(page.relative_to(ROOT)): len(lines(page)) for page in PAGES}
    assert max(found.values()) <= 250, {page: n for page, n in found.items() if n > 250}


def longest_table(page: Path) -> int:
    """The rows of a page's longest table, without its head and the line below it."""
    runs = "".join("|" if line.startswith("|") else " " for line in lines(page))
    return max(map(len, runs.split()), default=2) - 2


def test_no_table_has_more_than_40_rows() -> None:
    """Longer ones are CSV files with a link."""
    found = {str(page.relative_to(ROOT)): longest_table(page) for page in PAGES}
    assert max(found.values()) <= 40, {page: n for page, n in found.items() if n > 40}
