"""Errors as users see them: one plain line that says what is wrong and what to do."""

import difflib
import math
from collections.abc import Iterable

from coopsim.types import CoopsimError


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> CoopsimError:
    """An error for a name that is not known, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    tip = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return CoopsimError(f"unknown {what} {name!r}; {tip}{hint}")


def human(nbytes: float) -> str:
    """Bytes for people: 1.25 GiB."""
    if abs(nbytes) < 1024:
        return f"{nbytes:.0f} B"
    power = min(int(math.log2(abs(nbytes)) // 10), 4)
    return f"{nbytes / 1024**power:.4g} {['KiB', 'MiB', 'GiB', 'TiB'][power - 1]}"
