"""Find the C and C++ compilers of this machine, the first error in their output, and what a release has compiled."""

import os
import shutil
from pathlib import Path

_NAMES = {"CC": ("cc", "gcc", "clang"), "CXX": ("c++", "g++", "clang++")}
_CALLED = {"CC": "C", "CXX": "C++"}


def find(variable: str) -> str | None:
    """Return the path of the compiler that $CC or $CXX names, or else of one with a usual name; None without one."""
    return next((found for found in map(shutil.which, _names(variable)) if found), None)


def missing(variable: str) -> str:
    """Return the message for a missing compiler."""
    return f"no {_CALLED[variable]} compiler ({', '.join(_names(variable))})"


def why_not() -> str:
    """Return why a library of coopsim's could not be compiled, for a line to the user, where it could not."""
    return "coopsim's library cannot be compiled with this PyTorch" if find("CXX") else missing("CXX")


def first_error(stderr: str) -> str:
    """Return the first line with an error, or else the first 200 characters."""
    return next((line for line in stderr.splitlines() if "error" in line), stderr.strip()[:200])


def _names(variable: str) -> tuple[str, ...]:
    named = os.environ.get(variable)
    return (named,) if named else _NAMES[variable]


def folder(torch: str, cuda: str) -> Path:
    """Return the folder of libraries for a torch and its CUDA version; it need not exist."""
    return Path(__file__).parents[1] / "compiled" / f"torch-{torch.partition('+')[0]}-cuda-{cuda}"
