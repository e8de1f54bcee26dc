"""Sections of pages that are made by experiments."""

import textwrap
from pathlib import Path

from coopsim.base.files import replacing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WIDTH = 120  #: of prose; a test holds the pages to it


def wrapped(text: str) -> str:
    """Text for a page: prose at 120 columns, items of lists indented; rows of tables as they are."""
    lines = []
    for line in text.split("\n"):
        if len(line) <= WIDTH or line.startswith("|"):
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(
                line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(lines)


def every() -> list[Path]:
    """The pages that may have sections: those of docs, and the READMEs."""
    readmes = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "experiments").glob("**/README.md"))
    return sorted([*DOCS.rglob("*.md"), *readmes])


def around(name: str) -> tuple[Path, str, str, str]:
    """The page with the marks `<!-- NAME -->` and `<!-- end of NAME -->`; its text before, between and after them.

    ValueError if no page has them, or if they stand twice.
    """
    mark, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    texts = [(page, page.read_text(encoding="utf-8")) for page in every()]
    found = [(page, text) for page, text in texts for _ in range(text.count(mark))]
    if len(found) != 1:
        where = " and ".join(str(page.relative_to(ROOT)) for page, _ in found)
        raise ValueError(f"section {name} is in {where}" if found else f"no page has a section {name}")
    page, text = found[0]
    before, _, rest = text.partition(mark)
    inside, closed, after = rest.partition(end)
    if not closed:
        raise ValueError(f"{page.relative_to(ROOT)}: section {name} has no end")
    return page, before + mark, inside, end + after


def write_section(name: str, text: str) -> None:
    """Put text between the marks of this name, wherever they are. ValueError if they are not there once."""
    page, before, _, after = around(name)
    with replacing(page) as part:
        part.write_text(f"{before}{text.rstrip()}\n{after}", encoding="utf-8")


def read_section(name: str) -> str:
    """What stands between those marks."""
    return around(name)[2]
