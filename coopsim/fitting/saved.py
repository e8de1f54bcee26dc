"""Save the remedies found for a script, for `--apply` and `--patch`, which would otherwise search again."""

import hashlib
import json
from dataclasses import asdict
from importlib import util
from importlib.metadata import version
from pathlib import Path

from coopsim.base import files
from coopsim.base.option import declared
from coopsim.base.typed import read
from coopsim.base.types import CoopsimError
from coopsim.fitting import inputs
from coopsim.fitting.remedy import Remedy
from coopsim.run import Script
from coopsim.version import __version__


def save(script: Script, remedies: tuple[Remedy, ...]) -> None:
    """Save the remedies for a script in the user's cache folder, in place of those saved for it before."""
    path = _path(script)
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as part:
        part.write_text(json.dumps([asdict(remedy) for remedy in remedies]), encoding="utf-8")


def load(script: Script) -> tuple[Remedy, ...] | None:
    """Return the remedies that were saved for this script; None if there are none, or if they are out of date.

    They are for the same command, card, memory, options, folder and `versions`, and for files (inputs.py) that have not
    changed.

    Raises CoopsimError if the file is damaged.
    """
    try:
        found: tuple[Remedy, ...] = read(tuple[Remedy, ...], json.loads(_path(script).read_text(encoding="utf-8")))
        return None if _is_old(_path(script), found) else found
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise CoopsimError(f"{_path(script)} is damaged; remove it") from None


def _is_old(path: Path, remedies: tuple[Remedy, ...]) -> bool:
    """Has a file changed that a remedy has another text of?"""
    files = {file for remedy in remedies for file, _ in remedy.texts}
    return any(Path(file).stat().st_mtime_ns > path.stat().st_mtime_ns for file in files)


def versions() -> tuple[object, ...]:
    """Return what results depend on beside the script, to be compared for equality.

    It is coopsim's version and a hash of its code, and the versions of PyTorch and transformers, if installed.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    found = [version(name) for name in ("torch", "transformers") if util.find_spec(name)]
    return __version__, digest.hexdigest(), *found


def _path(script: Script) -> Path:
    digest = hashlib.sha256()
    options = {name: getattr(script, name) for name, (_, of) in declared(Script).items() if of.in_key}
    said = (versions(), str(Path.cwd()), script.card, script.total_bytes, script.command, options)
    lengths = Path(script.lengths).read_bytes() if script.lengths else b""
    digest.update(repr((said, lengths, inputs.digest(script.command))).encode())
    return files.cache_folder() / "fit" / f"{digest.hexdigest()[:32]}.json"
