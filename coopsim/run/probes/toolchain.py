"""Check for what TorchInductor needs on this machine to compile for a GPU: Triton, a C compiler, Python's headers."""

import importlib.metadata
import os
import re
import shutil
import sysconfig
from pathlib import Path


def missing() -> str:
    """Return what is missing first, and how to install it, as the end of a message: "needs Triton, …".

    "" if nothing is.
    """
    wanted = _wanted()
    install = f"pip install --no-deps triton{f'=={wanted}' if wanted else ''}"
    try:
        have = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return f"needs Triton, which is not installed: {install}"
    if wanted and _release(have) != _release(wanted):
        return f"needs Triton {wanted}, and {have} is installed: {install}"
    if not any(map(shutil.which, filter(None, [os.environ.get("CC"), "gcc", "clang"]))):
        return "needs a C compiler for Triton's launchers; install one, as in: apt install gcc"
    folder = sysconfig.get_path("include", "posix_prefix")
    if not Path(folder, "Python.h").exists():
        return f"needs Python.h for Triton's launchers, and {folder} has none; install it: apt install python3-dev"
    return ""


def _wanted() -> str:
    """Return the version of Triton that the installed torch requires; "" if it names none."""
    for requirement in importlib.metadata.requires("torch") or []:
        found = re.match(r"(?:pytorch-)?triton\s*\(?(?:~=|==)\s*([\d.]+)", requirement)
        if found:
            return found[1]
    return ""


def _release(version: str) -> list[str]:
    return version.split(".")[:2]
