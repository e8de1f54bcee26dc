"""Links to what lies outside docs: notebooks, and pages that the site lacks."""

import re
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _links)
    return {"parallel_read_safe": True}


def _links(_app: Any, page: str, source: list[str]) -> None:
    """In the site, notebooks are a folder below the pages, not beside them; pages that it lacks are downloads."""
    if page.startswith("notebooks/"):
        source[0] = source[0].replace("](../docs/", "](../").replace("](../experiments/", "](../../experiments/")
        return
    up = "../" * (page.count("/") + 1)
    text = source[0].replace(f"]({up}notebooks/", f"]({up[3:]}notebooks/")
    outside = re.compile(rf"\[([^]]+)\]\(({re.escape(up)}(?!\.\./)[^)#]+\.md)(?:#[^)]*)?\)")
    source[0] = outside.sub(r"{download}`\1 <\2>`", text)
