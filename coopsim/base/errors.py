"""Errors as users see them: one plain line that says what is wrong and what to do."""

import difflib
from collections.abc import Iterable
from typing import Any

from coopsim.base.types import CoopsimError

_NEARLY = 0.2  # less alike than the nearest by no more than this is worth a mention, too


class CaptureError(CoopsimError):
    """The step could not be recorded; the message says why in one line."""


class CaptureOutOfMemory(CaptureError):  # noqa: N818 (the outcome's name)
    """The step needs more memory than the card has. The command line exits with 3."""

    exit_code = 3


class PhantomError(CoopsimError):
    """The phantom GPU does not work here; the message says why, and how to fix it."""


class NoCudaTorchError(PhantomError):
    """torch is not installed, or is a build without CUDA."""


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> CoopsimError:
    """An error for a name that is not known, with the nearest ones."""
    names = sorted(known)
    near = nearest(name, names)
    tip = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return CoopsimError(f"unknown {what} {name!r}; {tip}{hint}")


def named(what: str, value: object) -> str:
    """The value if it is a name, a string; CoopsimError if it is anything else."""
    if not isinstance(value, str):
        raise CoopsimError(f"{what} {value!r} is no name: give a string")
    return value


def of_type(what: str, value: object, kind: type, instead: str) -> None:
    """Raise CoopsimError unless a value is of this type; `instead` says how to get one."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise CoopsimError(f"{what}: {value!r} is no {kind.__name__.lower()}; {instead}")


def whole(what: str, value: object, least: int, instead: str) -> None:
    """Raise CoopsimError unless a value is a whole number of at least so much; `instead` says what it is."""
    of_type(what, value, int, instead)
    if value < least:  # type: ignore[operator]
        raise CoopsimError(f"{what} must be at least {least}")


def several(value: Any) -> list[Any]:
    """One value or several, as a list."""
    return list(value) if isinstance(value, list | tuple | range) else [value]


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.5) -> list[str]:
    """The known names most like this one, up to three, if any is so much like it (1: the same)."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=likeness)
    return [n for n in near if alike(n, name) > alike(near[0], name) - _NEARLY]


def alike(a: str, b: str) -> float:
    """1 if they are the same, 0 if they have nothing in common; as get_close_matches has it."""
    return difflib.SequenceMatcher(None, a, b).ratio()
