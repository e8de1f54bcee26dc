"""One language: no page, message or name says in words of our own what the field has a word for (docs/how-it-works.md).

`WORDS` are the words that were given up, with what to say instead; `ALLOWED` what they may still stand in, and why.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
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


#: Words in the code that are something else there: where, which, and what they are.
IN_CODE = (
    ("coopsim/run/ranks/", r"scatters?", "the collective"),
    ("coopsim/cards/prices.py", r"scatter", "the op"),
    ("coopsim/phantom/csrc/nccl", r"scatters?", "the collective"),
    ("coopsim/cards/prices.py", r"scatters?", "ops of PyTorch's"),
    ("coopsim/simulate/kernel/jit.py", r"home", "the folder of the user's files"),
    ("coopsim/study/oracle/build.py", r"home|_home", "the folder of the user's files"),
    ("coopsim/simulate/allocators/caching/rounding.py", r"rounds?", "of numbers"),
    ("coopsim/study/figures/", r"a round one|round numbers|wall\s+clock", "of numbers; wall-clock time"),
    ("coopsim/study/figures/cells.py", r"FIXED", "roles that never move"),
    ("coopsim/fitting/advise/failure.py", r"the other way round", "an idiom"),
    ("coopsim/simulate/timeline/params.py", r"wall ns", "wall-clock time"),
)
CODE = sorted((ROOT / "coopsim").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def named(text: str) -> Iterator[tuple[int, str]]:
    """Every string and comment of a module, docstrings among them, and every name that it defines, word by word."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.replace("_", " ")


def allowed_out(text: str, file: Path) -> str:
    """A text of the package's file without the words that are something else there."""
    place = file.relative_to(ROOT).as_posix()
    for pattern in (*ALLOWED, *(pattern for where, pattern, _ in IN_CODE if place.startswith(where))):
        text = re.sub(rf"\b(?:{pattern})\b", "", text, flags=re.IGNORECASE)
    return text


def test_code_speaks_the_language_of_the_field() -> None:
    found = []
    for file in CODE:
        for line, text in named(file.read_text(encoding="utf-8")):
            if given_up(text):  # most say nothing of the kind, whatever is allowed
                found += [f"{file.relative_to(ROOT)}:{line}: {said}" for said in given_up(allowed_out(text, file))]
    assert not found, "\n".join(found)


FOREIGN = sorted(file for kind in ("c", "h", "cpp", "js", "css") for file in (ROOT / "coopsim").rglob(f"*.{kind}"))
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def comments(file: Path) -> str:
    """The comments of a file in C or JavaScript."""
    said = "\n".join(found[0] for found in _COMMENT.finditer(file.read_text(encoding="utf-8")))
    return allowed_out(said, file)


def test_comments_in_c_and_javascript_do_too() -> None:
    speak_the_language(FOREIGN, comments)


def markdown(notebook: Path) -> str:
    """The text of a notebook, without code."""
    cells = nbformat.read(notebook, as_version=4).cells
    said = "\n".join(re.sub(r"`[^`\n]*`", "", cell.source) for cell in cells if cell.cell_type == "markdown")
    return re.sub("|".join(ALLOWED), "", said)


def test_notebooks_speak_the_language_of_the_field() -> None:
    speak_the_language(NOTEBOOKS, markdown)
