"""Figures as files: PNG, PDF or SVG, whole or not at all, and the same bytes for the same figure."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.files import replacing
from coopsim.types import CoopsimError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
