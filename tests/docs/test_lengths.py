"""Pages are short enough to be read, and their prose is wrapped."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

from .blocks import PAGES

WIDTH = 120
WORDS = 2400
LONGER = {
    "docs/replay.md": "the specification: looked up rule by rule, and one page so that no rule is missed",
    "docs/reference/python.md": "a reference, made from the docstrings: looked up call by call",
}
ROWS = 40
SENTENCE, LONG_SENTENCES = 25, 0.05  #: words; at most this share of a page's sentences has more
#: The book is what is written by hand: the reference is made from what declares it.
BOOK = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.parent.name != "reference"]
BOOK_PAGES, BOOK_WORDS = 25, 40_000
#: READMEs of experiments are for who repeats a measurement.
PROTOCOL = 300
LONGER_PROTOCOLS = {
    "experiments/README.md": "which script makes what",
    "experiments/figures/README.md": "a gallery",
    "experiments/gpu/README.md": "how to measure a GPU, on a machine that is lent",
}
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def words(text: str) -> int:
    """Words of a page, tables included: what has a letter or a digit, outside fenced code."""
    return sum(bool(re.search(r"\w", word)) for word in _FENCE.sub("", text).split())


def too_wide(text: str) -> Iterator[int]:
    """Numbers of lines of prose that are too long and could be wrapped: no code, and no row of a table."""
    plain = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(plain.splitlines(), 1):
        code_or_row = line.startswith("    ") or line.lstrip().startswith("|")
        if len(line) > WIDTH and " " in line.strip() and not code_or_row:
            yield number


def test_the_readme_has_one_screen_and_the_changelog_a_line_per_change() -> None:
    readme, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md"))
    assert len(readme.split()) <= 650
    assert len(readme.splitlines()) <= 90
    assert len(changelog.splitlines()) <= 120


def test_no_page_has_more_words_than_one_reads() -> None:
    counts = {name(page): words(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: n for page, n in counts.items() if n > WORDS and page not in LONGER} == {}
    assert all(counts[page] > WORDS for page in LONGER), "no exception any more"


def test_the_book_stays_small() -> None:
    assert len(BOOK) <= BOOK_PAGES
    assert sum(words(page.read_text(encoding="utf-8")) for page in BOOK) <= BOOK_WORDS


def test_protocols_are_short() -> None:
    counts = {name(page): words(page.read_text(encoding="utf-8")) for page in PAGES if "experiments" in page.parts}
    assert len(counts) > 5
    assert {page: n for page, n in counts.items() if n > PROTOCOL and page not in LONGER_PROTOCOLS} == {}
    assert all(counts[page] > PROTOCOL for page in LONGER_PROTOCOLS), "no exception any more"


def test_prose_is_wrapped() -> None:
    assert [f"{name(page)}:{n}" for page in PAGES for n in too_wide(page.read_text(encoding="utf-8"))] == []


def sentences(text: str) -> list[str]:
    """Those of a page's prose: without code, tables, headings, marks and targets of links."""
    lines = (line for line in _FENCE.sub("", text).splitlines() if not line.startswith(("|", "#", "<!--", "    ")))
    prose = re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))
    return re.split(r"(?<=[.:?!*])\s+(?=[A-Z*\[`0-9-])|\n\n|\n *- |\n\d\. ", prose)


def long_ones(page: Path) -> float:
    """The share of its sentences that have more than SENTENCE words."""
    found = sentences(page.read_text(encoding="utf-8"))
    return sum(words(one) > SENTENCE for one in found) / len(found)


def test_sentences_are_short() -> None:
    shares = {name(page): round(long_ones(page), 2) for page in BOOK}
    assert {page: share for page, share in shares.items() if share > LONG_SENTENCES} == {}


def test_no_table_has_more_than_40_rows() -> None:
    """Longer ones are CSV files with a link."""
    longest = {name(page): max(map(len, runs(page)), default=0) for page in PAGES}
    assert {page: n for page, n in longest.items() if n > ROWS + 2} == {}  # with a head and the line below it


def runs(page: Path) -> list[str]:
    """The rows of each table of a page, a character per row."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return "".join("|" if line.startswith("|") else " " for line in lines).split()


def test_both_limits_would_be_noticed() -> None:
    wide = "word " * 30
    assert list(too_wide(f"a\n{wide}\n    {wide}\n| {wide} |\n```sh\n{wide}\n```\n- {wide}")) == [2, 8]
    assert list(too_wide(f"[{'a' * 130}](b.md)")) == []
    assert [words(one) for one in sentences(f"# Title\n\nOne. Two\n{wide}\n\n- three\n| {wide} |\n")] == [1, 31, 1]
    assert words(f"| one | - | 2 |\n\n```sh\nthree\n```\n{wide}") == 32
