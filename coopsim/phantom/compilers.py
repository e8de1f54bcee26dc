"""Where the compilers of this machine are, and what one of them said first."""

import os
import shutil

_NAMES = {"CC": ("cc", "gcc", "clang"), "CXX": ("c++", "g++", "clang++")}
_CALLED = {"CC": "C", "CXX": "C++"}


def find(variable: str) -> str | None:
    """The compiler that $CC or $CXX names, or one of the usual names; None if there is none."""
    return next((found for found in map(shutil.which, _names(variable)) if found), None)


def missing(variable: str) -> str:
    """What to say where there is none."""
    return f"no {_CALLED[variable]} compiler ({', '.join(_names(variable))})"


def first_error(stderr: str) -> str:
    """The first line that names an error, or the beginning of it all."""
    return next((line for line in stderr.splitlines() if "error" in line), stderr.strip()[:200])


def _names(variable: str) -> tuple[str, ...]:
    named = os.environ.get(variable)
    return (named,) if named else _NAMES[variable]
