"""Sections of pages that are made by experiments."""

import textwrap
from pathlib import Path

from coopsim.base.files import replacing

DOCS = Path(__file__).parents[2] / "docs"
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


def write_section(name: str, text: str, page: Path) -> None:
    """Put text between the marks `<!-- NAME -->` and `<!-- end of NAME -->`. ValueError if there are none."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not mark or not end:
        raise ValueError(f"{page.name} has no section {name}")
    with replacing(page) as part:
        part.write_text(f"{before}{mark}{text.rstrip()}\n{end}{after}", encoding="utf-8")


def read_section(name: str, page: Path) -> str:
    """What stands between those marks."""
    rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")[2]
    return rest.partition(f"<!-- end of {name} -->\n")[0]
