"""Install PyTorch's CUDA build without CUDA's libraries: most of its size, and of no use on the phantom GPU."""

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from packaging.requirements import Requirement

from coopsim.base.errors import NoCudaTorchError, PhantomError
from coopsim.cards import wheel

VERSION = "2.14.1"  #: the torch for which releases have compiled libraries, and with which everything is tested
#: Of that version and its Triton, for Python 3.11 on x86-64: to download, and on disk.
_DOWNLOAD, _ON_DISK = "0.8 GB", "2.1 GB"
_VERSION = re.compile(r"\d+(\.\w+)*(\+\w+)?")
_CUDA = re.compile(r"(nvidia|cuda)[-_]", re.IGNORECASE)


def install(version: str | None = None, *, say: Callable[[str], None]) -> wheel.Wheel:
    """Install torch and the Python packages that it requires into this Python's environment, and return what is there.

    version: VERSION if None. An installed CUDA build stays, of any version if `version` is None; packages that it
    requires and that are absent, as after an interruption, are added. `say` gets lines for the user; the installer's
    own output goes to stderr. Files that were downloaded whole stay in the installer's cache, so that another call
    after an interruption goes on from there. Raises PhantomError for a version that is none, a torch without CUDA or of
    another version, without pip and uv, and if the installer fails.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise PhantomError(f"torch {version!r} is not a version, such as {VERSION}")
    have = _installed()
    if have and version and not f"{have.version}+".startswith((f"{version}+", f"{version}.")):
        raise PhantomError(
            f"torch {have.version} is here, not {version}; remove it (pip uninstall torch) and start again, or use "
            "another environment"
        )
    if have is not None:
        absent = [one for one in needed(importlib.metadata.requires("torch") or ()) if _is_absent(one)]
        said = f"installing what it requires: {', '.join(absent)}" if absent else "nothing to do"
        say(f"torch {have.version} (CUDA {have.cuda}) is here already, in {have.folder}; {said}")
        if absent:
            _run([*_installer(), *absent])
        return have
    version, command = version or VERSION, _installer()
    say(
        f"torch {version} and Triton, without CUDA's libraries: about {_DOWNLOAD} to download, {_ON_DISK} on disk, one "
        "minute at 100 Mbit/s; interrupted, start it again: whole files are kept"
    )
    _run([*command, "--no-deps", f"torch=={version}"])
    importlib.invalidate_caches()
    _run([*command, *needed(importlib.metadata.requires("torch") or ())])
    importlib.invalidate_caches()
    found = wheel.find()
    say(
        f"torch {found.version} (CUDA {found.cuda}) is installed. Start what imports it with coopsim, as in: coopsim "
        f"phantom run -- python train.py. For a machine with a GPU add CUDA's libraries: pip install torch=={version}"
    )
    return found


def needed(requirements: Sequence[str]) -> list[str]:
    """Return those of torch's requirements that are neither CUDA's libraries nor for its extras."""
    return [one for one in requirements if not _CUDA.match(one) and "extra ==" not in one]


def _is_absent(requirement: str) -> bool:
    """Return whether a package that is required here is not installed, in whatever version."""
    asked = Requirement(requirement)
    if asked.marker is not None and not asked.marker.evaluate():
        return False
    try:
        importlib.metadata.version(asked.name)
    except importlib.metadata.PackageNotFoundError:
        return True
    return False


def _installed() -> wheel.Wheel | None:
    try:
        return wheel.find()
    except NoCudaTorchError:
        if importlib.util.find_spec("torch") is None:
            return None
    raise PhantomError(
        f"torch {wheel.find_any().version} is a build without CUDA; remove it (pip uninstall torch) and start again, "
        "or use another environment"
    )


def _installer() -> list[str]:
    """Return the command that installs into this environment: pip's, or uv's where the environment has no pip."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-warn-conflicts"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise PhantomError(f"neither pip nor uv installs into {sys.prefix}; install one, as in: python -m ensurepip")


def _run(command: list[str]) -> None:
    code = subprocess.run(command, check=False, stdout=sys.stderr).returncode  # noqa: S603
    if code:
        raise PhantomError(f"{' '.join(command[1:4])} failed (exit code {code}); it has said why above")
