"""Sections that scripts write are found by their mark, on whatever page it stands."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from experiments.allocators import requests
from experiments.common import pages
from experiments.offload import offload
from experiments.paper import headline
from tests.conftest import ROOT

_MARK = re.compile(r"^<!-- (?!end of )(.+) -->$", re.MULTILINE)


def test_every_mark_stands_once_and_is_closed() -> None:
    marks = Counter(name for page in pages.every() for name in _MARK.findall(page.read_text(encoding="utf-8")))
    assert len(marks) > 10, "the pattern misses them"
    del marks["the command line"]  # the site's own, which writes from there on
    assert {name: n for name, n in marks.items() if n > 1} == {}
    assert [name for name in marks if not pages.read_section(name).strip()] == []


def test_a_section_is_written_where_its_mark_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# A\n\n<!-- sums -->\nold\n<!-- end of sums -->\n\nafter\n"
    one, other = tmp_path / "one.md", tmp_path / "other.md"
    one.write_text("# One\n")
    other.write_text(text)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "every", lambda: [one, other])
    pages.write_section("sums", "new")
    assert other.read_text() == text.replace("old", "new")
    assert pages.read_section("sums") == "new\n"
    with pytest.raises(ValueError, match="no page has a section gaps"):
        pages.write_section("gaps", "new")
    one.write_text(text)
    with pytest.raises(ValueError, match=r"section sums is in one\.md and other\.md"):
        pages.read_section("sums")
    one.write_text("<!-- open -->\n")
    with pytest.raises(ValueError, match=r"one\.md: section open has no end"):
        pages.read_section("open")


def sections() -> dict[str, str]:
    """What scripts make of the committed results, where no other test compares it with the page."""
    expected = ROOT / "experiments" / "expected"
    bands, smallest, offloaded, reserved = (
        pd.read_csv(expected / f"{name}.csv") for name in ("headline", "smallest", "offload", "allocators")
    )
    return {
        "headline": headline.section(bands, smallest),
        "offload": offload.by_card(offloaded.fillna({"link": ""})),
        "allocators": requests.markdown(reserved),
    }


@pytest.mark.parametrize("name", ["headline", "offload", "allocators"])
def test_a_section_is_what_its_script_makes_of_the_data(name: str) -> None:
    assert pages.read_section(name).strip() == sections()[name].strip()
