"""Every link leads to a file that is there, and to a heading of it: of pages, READMEs, notebooks, code and --help."""

import json
import re
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

from .blocks import PAGES

MORE = [file for folder in ("benchmarks", "experiments", "tests") for file in sorted((ROOT / folder).rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ALL = [*dict.fromkeys([*PAGES, *MORE]), *NOTEBOOKS, ROOT / "CHANGELOG.md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MADE = ("reference/",)  #: pages that only the site has


def links(page: Path) -> list[str]:
    """Targets within the repository, outside code."""
    text = page.read_text(encoding="utf-8")
    if page in NOTEBOOKS:
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return [target for target in _LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


@cache
def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and the site name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def anchor(title: str) -> str:
    """A heading as the end of a link.

    >>> anchor("`coopsim requests CASE --torch V`")
    'coopsim-requests-case---torch-v'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def leads_somewhere(page: Path, target: str) -> bool:
    file, _, heading = target.partition("#")
    if file.startswith(_MADE):
        return True
    found = (page.parent / file).resolve() if file else page
    return found.exists() and (not heading or found.suffix != ".md" or heading in headings(found))


def test_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in ALL
        for target in links(page)
        if not leads_somewhere(page, target)
    ]
    assert not dead, "\n".join(dead)


def test_no_page_has_the_marks_of_a_conflict() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in ALL}
    assert [page.name for page, text in texts.items() if re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE)] == []


def test_links_are_found() -> None:
    """Had the pattern missed them, nothing above could fail."""
    assert sum(len(links(page)) for page in ALL) > 200
    assert any("#" in target for page in ALL for target in links(page))
    assert all(links(page) for page in NOTEBOOKS)
    index = ROOT / "docs" / "index.md"
    assert not leads_somewhere(index, "absent.md")
    assert not leads_somewhere(index, "replay.md#absent")


def test_pages_named_in_code_are_there() -> None:
    """And their headings: in docstrings, comments, messages and what --help prints."""
    named = re.compile(r"\bdocs/([\w-]+(?:/[\w-]+)?\.md(?:#[\w-]+)?)")
    folders = ("benchmarks", "coopsim", "examples", "experiments", "tests")
    code = [f for folder in folders for kind in ("py", "toml", "c", "cpp") for f in (ROOT / folder).rglob(f"*.{kind}")]
    files = [*sorted(code), ROOT / "Makefile", ROOT / "action.yml", ROOT / "pyproject.toml"]
    found = [(file, page) for file in files for page in named.findall(file.read_text(encoding="utf-8"))]
    assert len(found) > 50, "the pattern misses them"
    dead = [(file, page) for file, page in found if not leads_somewhere(ROOT / "docs" / "index.md", page)]
    assert [f"{file.relative_to(ROOT)}: {page}" for file, page in dead] == []


def test_files_named_in_pages_are_there() -> None:
    """What stands in backticks and begins with a folder of the repository."""
    named = re.compile(r"`((?:benchmarks|coopsim|docs|examples|experiments|tests)/[\w./-]+)`")
    text = {page: page.read_text(encoding="utf-8") for page in PAGES}
    found = [(page.name, path) for page in PAGES for path in named.findall(text[page])]
    assert len(found) > 50, "the pattern misses them"
    other = ("experiments/gpu/results", "benchmarks/llama3_h100_")  # made by a run; torchtitan's
    assert [(page, path) for page, path in found if not path.startswith(other) and not (ROOT / path).exists()] == []
