"""What is shown here but lives elsewhere: links of notebooks, docstrings (plain text, not reST), and signatures."""

import re
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

_ELSEWHERE = re.compile(r"\[([^]]+)\]\(\.\./((?:README|experiments/notes/\w+|tests/peers/\w+/README)\.md)(?:#[^)]*)?\)")
_DRAWN = re.compile("[─►┐┘└┴■●│]")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _links)
    app.connect("autodoc-process-docstring", _plain_docstring)
    app.connect("autodoc-process-signature", _short_signature)
    return {"parallel_read_safe": True}


def _links(_app: Any, page: str, source: list[str]) -> None:
    """In the site, notebooks are a folder below the pages, not beside them; pages that it lacks are downloads."""
    if page.startswith("notebooks/"):
        source[0] = source[0].replace("](../docs/", "](../").replace("](../experiments/", "](../../experiments/")
    else:
        source[0] = _ELSEWHERE.sub(r"{download}`\1 <../\2>`", source[0].replace("](../notebooks/", "](notebooks/"))


def _plain_docstring(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """`code` becomes ``code``; a paragraph that is indented or drawn is a table or a drawing, and stays as it is."""
    found: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        rows = paragraph.split("\n")
        if any(row.startswith("    ") for row in rows) or _DRAWN.search(paragraph):
            found += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            found += [*map(_escaped, rows), ""]
    lines[:] = found


def _escaped(line: str) -> str:
    if line.lstrip().startswith(">>>"):
        return line
    line = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
    parts = re.split(r"(``[^`]+``)", line)
    return "".join(
        p if k % 2 else p.replace("*", r"\*").replace("|", r"\|").replace("_ ", r"\_ ") for k, p in enumerate(parts)
    )


_ARRAYS = {"int64": "Ints", "int8": "Ints", "bool": "Bools", "float64": "Floats"}
_ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")


def _short_signature(
    _app: Any, what: str, _name: str, thing: Any, _options: Any, signature: str | None, answer: str | None
) -> tuple[str, str] | None:
    """A table's columns without their types, which its docstring tells; an enumeration without arguments."""
    if what == "class" and isinstance(thing, type) and issubclass(thing, Enum):
        return "", ""
    if what == "class" and is_dataclass(thing):
        return f"({', '.join(f.name for f in fields(thing) if f.init)})", ""
    return None if signature is None else (_short(signature), _short(answer or ""))


def _short(text: str) -> str:
    """Types by their last names; arrays by what is in them."""
    text = re.sub(r"~?\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text).replace("~", "")
    return _ARRAY.sub(lambda m: _ARRAYS.get(m[1], "Array"), text)
