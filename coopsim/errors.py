"""Errors as users see them: one plain line that says what is wrong and what to do."""

import difflib
from collections.abc import Iterable

from coopsim.types import CoopsimError


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> CoopsimError:
    """An error for a name that is not known, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    tip = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return CoopsimError(f"unknown {what} {name!r}; {tip}{hint}")
