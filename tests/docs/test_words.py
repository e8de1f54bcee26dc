"""One language: no page has a private word where the field has one (docs/how-it-works.md).

`PRIVATE` are the words that were given up, with what to say instead. Plain words are not on the list: whether they are
the right ones no pattern can tell.
"""

import re
from pathlib import Path

from tests.conftest import ROOT

from .blocks import PAGES

UNIT = r"(?:row|byte|value|step|trace|policy|op|block|budget|search|core|cell|model|second|setting|point|line|object)"
PRIVATE = {
    r"watchers?": "dependents",
    r"(?:decide[sd]?|deciding)[- ]by": "cost model",
    r"dear(?:er|est|ly)?": "expensive",
    r"(?:a|the|each|every|its|one) stays?": "residency",
    r"rehears\w+": "dry run",
    rf"(?:an?|one|costs?) {UNIT}s? an? {UNIT}|cost an? {UNIT}": "per",
}
_CODE = re.compile(r"```.*?```|^ {4}.*?$|`[^`\n]*`|\]\([^)]*\)|\$\w+", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """A page without code and links' targets, line by line as it was."""
    return _CODE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))


def given_up(text: str) -> list[str]:
    """What stands in a text and should not: line, word, what to say instead."""
    found = []
    for words, instead in PRIVATE.items():
        for hit in re.finditer(rf"\b(?:{words})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f"line {line}: {hit[0]!r}; say {instead}")
    return found


def test_pages_speak_the_language_of_the_field() -> None:
    pages = [*PAGES, ROOT / "CHANGELOG.md"]
    found = [f"{page.relative_to(ROOT)}, {said}" for page in pages for said in given_up(prose(page))]
    assert not found, "\n".join(found)


def test_a_word_would_be_found() -> None:
    assert given_up("A dearer op.\nA row a value.") == [
        "line 1: 'dearer'; say expensive",
        "line 2: 'A row a value'; say per",
    ]
