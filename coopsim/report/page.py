"""The page: template, style, script and data in one file, which may load nothing and run no other script."""

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any

from coopsim.files import replacing

_SCRIPTS = ("format", "dom", "data", "charts", "view", "map", "axes", "input", "tables", "app")


def html(data: Mapping[str, Any]) -> str:
    """The whole page for `collect`'s data. The same data gives the same text.

    Names from traces are text everywhere: the data is JSON in which no `<` is left, the script makes text nodes of it,
    and the page's own policy refuses every script and style but the two of this package.
    """
    script = '"use strict";\n(() => {\n' + "\n".join(_read(f"{name}.js") for name in _SCRIPTS) + "})();\n"
    style = _read("style.css")
    policy = f"default-src 'none'; img-src data:; script-src {_hash(script)}; style-src {_hash(style)}"
    return Template(_read("page.html")).substitute(
        policy=policy,
        title=escape(", ".join(str(trace["label"]) for trace in data["traces"])),
        style=style,
        script=script,
        data=_json(data),
    )


def write(data: Mapping[str, Any], path: str | Path) -> None:
    """Write the page, whole or not at all. CoopsimError if it cannot be written."""
    text = html(data).encode()
    with replacing(path) as part:
        part.write_bytes(text)


def _read(name: str) -> str:
    return (resources("coopsim.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
