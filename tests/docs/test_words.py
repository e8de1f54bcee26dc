"""One language: no page or notebook says in words of our own what the field has a word for (docs/how-it-works.md).

`WORDS` are the words that were given up, with what to say instead; `ALLOWED` what they may still stand in, and why.
"""

import re
from collections.abc import Callable
from pathlib import Path

import nbformat

from tests.conftest import ROOT

from .blocks import PAGES

MADE = [*PAGES, ROOT / "CHANGELOG.md"]
UNIT = r"(?:row|byte|value|step|trace|policy|op|block|budget|search|core|cell|model|second|setting|point|line|object)"
WORDS = {
    r"pieces?": "block",
    r"walls?": "barrier",
    r"scatter(?:s|ed|ing)?": "external fragmentation, to fragment",
    r"settle[sd]?": "assign",
    r"fixed": "non-evictable",
    r"watchers?": "dependents",
    r"(?:decide[sd]?|deciding)[- ]by": "cost model",
    r"dear(?:er|est|ly)?": "expensive",
    r"grades?": "cost class",
    r"homes?": "preferred address",
    r"(?:a|the|each|every|its|one) stays?": "residency",
    r"rehears\w+": "dry run",
    r"rounds?": "iteration of the trace",
    rf"(?:an?|one|costs?) {UNIT}s? an? {UNIT}|cost an? {UNIT}": "per",
    r"things?": "its name",
}
ALLOWED = {
    r"wall(?:-| )clock|wall times?|\| wall, s \|": "wall-clock time is the field's word",
    r"round (?:up|down)|rounds? it (?:up|down)": "of numbers",
}
_CODE = re.compile(r"```.*?```|^ {4}.*?$|`[^`\n]*`|\]\([^)]*\)|\$\w+", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """A page without code, links' targets and what is allowed, line by line as it was."""
    text = page.read_text(encoding="utf-8")
    for pattern in (_CODE, *(re.compile(words, re.IGNORECASE) for words in ALLOWED)):
        text = pattern.sub(lambda found: "\n" * found[0].count("\n"), text)
    return text


def given_up(text: str) -> list[str]:
    """What stands in a text and should not: line, word, what to say instead."""
    found = []
    for words, instead in WORDS.items():
        for hit in re.finditer(rf"\b(?:{words})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f"line {line}: {hit[0]!r}; say {instead}")
    return found


def speak_the_language(files: list[Path], text_of: Callable[[Path], str]) -> None:
    """Fail with what stands in the files' texts and should not."""
    found = [f"{file.relative_to(ROOT)}, {said}" for file in files for said in given_up(text_of(file))]
    assert not found, "\n".join(found)


def test_pages_speak_the_language_of_the_field() -> None:
    speak_the_language(MADE, prose)


def test_a_word_would_be_found() -> None:
    assert given_up("A fixed value is a wall.\nA row a value.") == [
        "line 1: 'wall'; say barrier",
        "line 1: 'fixed'; say non-evictable",
        "line 2: 'A row a value'; say per",
    ]


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def markdown(notebook: Path) -> str:
    """The text of a notebook, without code."""
    cells = nbformat.read(notebook, as_version=4).cells
    said = "\n".join(re.sub(r"`[^`\n]*`", "", cell.source) for cell in cells if cell.cell_type == "markdown")
    return re.sub("|".join(ALLOWED), "", said)


def test_notebooks_speak_the_language_of_the_field() -> None:
    speak_the_language(NOTEBOOKS, markdown)
