"""A figure of the report is declared once, as a field of a dataclass: its type, its rows of text, and what it means.

The text of the report, `--json`, the notes of the gate and of `fit`, and the table in docs/reference/json.md follow.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias

#: A label and what it says; without a label it goes on with the row above.
Row: TypeAlias = tuple[str, str]
AnyReport: TypeAlias = Any  #: a Report (report.py), which is made of figures, so that its type cannot be named here
_KEY = "figure"
REQUIRED: Any = MISSING  #: as a default: there is none


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What is known of a figure beside its name and type.

    doc: what it means, in Markdown; "": it is in the row of the figure before it. rows: its rows in the text. lines:
    what is printed below all rows; cautions: below these, and by `fit` and the gate, too.
    """

    doc: str
    rows: Callable[[AnyReport], Iterable[Row]] | None = None
    lines: Callable[[AnyReport], Iterable[str]] | None = None
    cautions: Callable[[AnyReport], Iterable[str]] | None = None


def figure(default: Any, doc: str = "", *, init: bool = True, **known: Any) -> Any:
    """Declare a figure: the value of a dataclass field. A default that is a type is called for each value."""
    metadata = {_KEY: Figure(doc=doc, **known)}
    if isinstance(default, type):
        return field(default_factory=default, init=init, metadata=metadata)
    return field(default=default, init=init, metadata=metadata)


def declared(kind: type) -> dict[str, Figure]:
    """The figures of a dataclass by name, in the order of `--json`."""
    return {f.name: f.metadata[_KEY] for f in fields(kind) if _KEY in f.metadata}


def listed(rows: Iterable[str], label: str) -> list[Row]:
    """Rows of one label, which only the first has."""
    return [(label * (i == 0), text) for i, text in enumerate(rows)]
