"""Write the table of the report's figures in docs/reference/json.md: `python docs/_ext/json_page.py`."""

import re
from pathlib import Path

from coopsim.base.files import replacing
from coopsim.run.figure import declared
from coopsim.run.report import Report

PAGE = Path(__file__).parent.parent / "reference" / "json.md"
_TABLE = re.compile(r"(?<=\n## `phantom run`\n\n).*?(?=\n\n### )", re.DOTALL)


def page() -> str:
    """The page, with the table as the figures are declared."""
    return _TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


def table() -> str:
    """A row per figure, in the order of --json; figures without a doc of their own are in the row above."""
    rows: list[tuple[list[str], str]] = []
    for name, figure in declared(Report).items():
        if figure.doc:
            rows.append(([], figure.doc))
        rows[-1][0].append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {doc} |" for names, doc in rows]
    return "\n".join(["| key | meaning |", "| --- | --- |", *lines])


if __name__ == "__main__":
    with replacing(PAGE) as part:
        part.write_text(page(), encoding="utf-8")
