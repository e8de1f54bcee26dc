"""The versions that coopsim was tested with (docs/install.md), and what is said about others."""

import json
import os
import subprocess
import sys
from importlib import metadata

from coopsim.base import files
from coopsim.base.files import cache_folder
from coopsim.phantom import PhantomError, without_gpu
from coopsim.version import __version__ as version

#: Minor versions of PyTorch, and the oldest and the newest of transformers: rows of experiments/expected/versions.csv.
TORCH = ("2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
TRANSFORMERS = ("4.51", "5.24")

_PROBE = """
import json
from coopsim.record.observe import private, torch_private
lacking = [n for n in private.NAMES.values() if private.SEEN_IN[0] == n.since and not private.has(n.path)]
print(json.dumps([f"{n.path} ({n.without})" for n in lacking]))
"""


def untested() -> str:
    """Return one line that says which installed versions are not among the tested ones; "" if all are.

    Of such a PyTorch it also names the private names that all tested ones have and this one lacks, with what does not
    work without; another process looks them up, once, which takes some seconds.
    """
    said = []
    if (torch := _installed("torch")) and _minor(torch) not in map(_minor, TORCH):
        said.append(f"torch {torch} is not among the versions tested, {', '.join(TORCH)}{_lacking(torch)}")
    if transformers := _installed("transformers"):
        oldest, newest = TRANSFORMERS
        if not _minor(oldest) <= _minor(transformers) <= _minor(newest):
            said.append(f"transformers {transformers} is not among the versions tested, {oldest} to {newest}")
    return "; ".join(said)


def _installed(package: str) -> str:
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])


def _lacking(torch: str) -> str:
    """Return what this PyTorch lacks, as the rest of a sentence; "" if that is nothing, or cannot be told."""
    known = cache_folder() / f"lacking-{torch}-{version}.json"
    try:
        if known.is_file():
            lacking = json.loads(known.read_text(encoding="utf-8"))
        else:
            lacking = _looked_up()
            known.parent.mkdir(parents=True, exist_ok=True)
            with files.replacing(known) as part:
                part.write_text(json.dumps(lacking), encoding="utf-8")
    except (PhantomError, OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return ""
    return f"; it lacks {', '.join(lacking)}" if lacking else ""


def _looked_up() -> list[str]:
    command = [sys.executable, "-c", _PROBE]
    environment = os.environ | without_gpu()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found
