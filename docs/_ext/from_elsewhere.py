"""What is shown here but lives elsewhere: links of notebooks, and docstrings, which are plain text and not reST."""

import re
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _links)
    app.connect("autodoc-process-docstring", _plain_docstring)
    return {"parallel_read_safe": True}


def _links(_app: Any, page: str, source: list[str]) -> None:
    """In the site, notebooks are a folder below the pages, not beside them."""
    if page.startswith("notebooks/"):
        source[0] = source[0].replace("](../docs/", "](../").replace("](../experiments/", "](../../experiments/")
    else:
        source[0] = source[0].replace("](../notebooks/", "](notebooks/")


def _plain_docstring(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """`code` becomes ``code``; what is indented is a drawing or a table, and stays as it is."""
    found: list[str] = []
    drawing = False
    for line in lines:
        indented = line.startswith("    ") and line.strip() != ""
        if indented and not drawing:
            found += ["", "::", ""]
        if drawing and line.strip() and not indented:
            found.append("")
            drawing = False
        drawing = drawing or indented
        found.append(line if drawing else _escaped(line))
    lines[:] = found


def _escaped(line: str) -> str:
    if line.lstrip().startswith(">>>"):
        return line
    line = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
    parts = re.split(r"(``[^`]+``)", line)
    return "".join(p if k % 2 else p.replace("*", r"\*").replace("|", r"\|").replace("_ ", r"\_ ") for k, p in enumerate(parts))
