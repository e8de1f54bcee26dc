"""Tensors that no step reads in words, as `phantom run` and `fit` print them."""

from collections.abc import Sequence
from typing import Any

from coopsim.text import human


def rows(unused: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (label, text) for each variable in Report.unused; only the first has a label."""
    return [("" if i else "unused", text(one)) for i, one in enumerate(unused)]


def text(one: dict[str, Any]) -> str:
    """Return what is said of one variable: its name, its line, and what it keeps."""
    at = f" ({one['place']})" if one["place"] else ""
    tensors = f"{one['tensors']} tensor{'' if one['tensors'] == 1 else 's'}"
    return f"{one['name']}{at} keeps {human(one['bytes'])} on the card, {tensors} that no step reads"
