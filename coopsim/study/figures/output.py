"""Figures as files: PNG, PDF or SVG, whole or not at all; the same bytes for the same figure; what it was made with."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from coopsim.trace import Trace
    from coopsim.trace.schedule import Schedule

GREY = "#444444"


def of_trace(trace: "Trace") -> str:
    """The card for which the trace was recorded, and the precision: "a100-80gb, tf32"; "" if it says neither."""
    return ", ".join(_card(_of(trace)))


def of_schedule(schedule: "Schedule", trace: "Trace") -> str:
    """The same, and steps and allocator of a replay: "a100-80gb, tf32, 10 steps, arena"."""
    h = schedule.header
    return ", ".join([*_card(_of(trace)), *_steps(h.get("steps")), str(h.get("allocator", ""))]).strip(", ")


def of_table(df: "pd.DataFrame") -> str:
    """The same of the table of a sweep or of a map: what all its rows share; the rest is in the legend or titles."""

    def one(column: str) -> Any:
        values: Any = df[column].dropna().unique() if column in df.columns else []
        return values[0] if len(values) == 1 else None

    words = [*_card({key: one(key) for key in ("card", "precision")}), *_steps(one("steps")), one("allocator") or ""]
    words += [f"torch {one('torch')}"] if one("torch") else []
    words += [str(one("alloc_conf"))] if one("alloc_conf") else []
    return ", ".join(filter(None, words))


def _of(trace: "Trace") -> dict[str, Any]:
    return {"card": trace.header.get("card"), "precision": trace.precision}


def _card(header: Mapping[str, Any]) -> list[str]:
    return [str(header[key]) for key in ("card", "precision") if header.get(key)]


def _steps(n: Any) -> list[str]:
    return [] if n is None else [f"{int(n)} step{'' if int(n) == 1 else 's'}"]


# Metadata that would carry a date or a version is left out.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}
FORMATS = tuple(_METADATA)
_RC: Any = {"svg.hashsalt": "coopsim", "svg.fonttype": "none", "pdf.fonttype": 42}


def check_formats(formats: Iterable[str]) -> list[str]:
    """The formats in lower case, without a leading dot. CoopsimError, naming those there are, for another or none."""
    names = [f.strip().lower().removeprefix(".") for f in formats]
    for name in names or [""]:
        if name not in FORMATS:
            raise CoopsimError(f"cannot draw {name or 'a figure without a format'!r}; figures are {', '.join(FORMATS)}")
    return names


def save(figure: "Figure", path: str | Path, *, dpi: int = 200) -> Path:
    """Write a figure, a PNG with `dpi` dots an inch, in the format that the suffix says. Returns the path.

    The file appears whole or not at all. CoopsimError for an unsupported suffix, or a folder that cannot be written to.
    """
    import matplotlib as mpl

    path = Path(path)
    if not path.suffix:
        raise CoopsimError(f"{path}: a figure's name ends in its format: {', '.join('.' + f for f in FORMATS)}")
    (form,) = check_formats([path.suffix])
    data = io.BytesIO()
    with mpl.rc_context(_RC):
        figure.savefig(data, format=form, dpi=dpi, metadata=_METADATA[form])
    with replacing(path) as part:
        part.write_bytes(data.getvalue())
    return path
