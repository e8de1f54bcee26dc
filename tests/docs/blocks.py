"""The code in the pages: fenced blocks and what is to be done with them, indented commands, commands in running text.

A fence names its language, and may say more (Markdown shows no more than the language):

    python            is run, in one namespace a page
    python file=F     is written to F; one that defines a `step` for cuda is recorded by a test of its own
    python not-run    must compile; it needs what a test has not
    sh                every `coopsim` line is run and must succeed
    sh exit=3         the same, with this exit code
    sh parsed         every `coopsim` line is read by the real parser: it would take long, or needs a GPU
    json, toml        must be read
    text, csv, sql    shown: a drawing, what a command prints or reads, a query to another program
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

_OTHERS = [ROOT / name for name in ("README.md", "SKILL.md", "CONTRIBUTING.md", "traces/README.md")]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *_OTHERS, *(ROOT / "experiments").rglob("README.md")])
PAGES = [p for p in PAGES if "notebooks" not in p.parts]  # the site's copies
_FENCE = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(coopsim [^`]+)`")


class Block(NamedTuple):
    """A fenced block. `line` is that of its first line of code."""

    page: Path
    line: int
    language: str
    options: tuple[str, ...]
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that it is to be written to."""
        return next((o.removeprefix("file=") for o in self.options if o.startswith("file=")), None)

    @property
    def exit_code(self) -> int:
        """Of its commands."""
        return int(next((o.removeprefix("exit=") for o in self.options if o.startswith("exit=")), 0))

    @property
    def is_step(self) -> bool:
        """Whether it is a program that `coopsim capture` can record."""
        return self.language == "python" and "\ndef step():" in self.text and "cuda" in self.text


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order; directives of the site (`{toctree}`) are none."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        language = fence[2]
        if not language.startswith("{"):
            line = text.count("\n", 0, fence.start()) + 2
            found.append(Block(page, line, language, tuple(fence[3].split()), fence[4]))
    return found


def indented_commands(page: Path) -> list[str]:
    """`coopsim` lines of blocks that are indented and not fenced."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [line.strip() for line in text.splitlines() if line.startswith("    coopsim ")]


def fused_commands(page: Path) -> list[str]:
    """Lines of indented commands that a formatter has run together: a command in a comment, or a line that begins amid
    one, as with an operand.
    """
    found = []
    for block in re.findall(r"(?:^    .*\n)+", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        lines = block.splitlines()
        ends = [i for i, line in enumerate(lines) if line.startswith("    coopsim ") and not line.endswith("\\")]
        found += [lines[i] for i in ends if re.search(r"#.*\bcoopsim [a-z-]+( [A-Z-]|$)", lines[i])]
        after = [lines[i + 1] for i in ends if i + 1 < len(lines)]
        found += [line for line in after if re.match(r"    [A-Z] ", line)]
    return found


def inline_commands(page: Path) -> list[str]:
    """Commands in running text that leave nothing out; brackets around what is optional are taken off."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found = [re.sub(r"[][]", "", c) for c in _INLINE.findall(text)]
    return [c for c in found if not any(mark in c for mark in ("…", "|", "*", "\n", "VERB"))]


def commands(text: str) -> list[str]:
    """The `coopsim` lines of a shell block, without comments; a line that ends with a backslash goes on."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if re.match(r"\s*([A-Z_]+=\S* )*coopsim ", line)]
