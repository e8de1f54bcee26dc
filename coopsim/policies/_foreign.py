"""Policies that are not ours: in a user's file, in folders, in installed packages."""

import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from coopsim.errors import unknown
from coopsim.policies._space import Policy
from coopsim.types import CoopsimError

FOLDERS = "COOPSIM_POLICIES"
GROUP = "coopsim.policies"


def in_file(path: Path, name: str = "") -> Policy:
    """The policy `name` of a Python file; without a name, the only one there. CoopsimError if there is none."""
    found = _policies_of(path)
    if name:
        if name not in found:
            raise unknown("policy", name, found, hint=f" (in {path})") if found else _none(path)
        return found[name]
    if len(found) != 1:
        raise CoopsimError(f"{path}: say which of its policies: {', '.join(found)}") if found else _none(path)
    return next(iter(found.values()))


def in_folders() -> Iterator[tuple[Policy, str]]:
    """All policies of the Python files in the folders that $COOPSIM_POLICIES lists, with their file."""
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        if not Path(folder).is_dir():
            raise CoopsimError(f"{FOLDERS}: {folder} is no folder")
        for path in sorted(Path(folder).glob("*.py")):
            for policy in _policies_of(path).values():
                yield policy, str(path)


def in_packages() -> Iterator[tuple[Policy, str]]:
    """Policies that installed packages offer as entry points."""
    for entry in _offered(tuple(sys.path)):
        policy = entry.load()
        if not isinstance(policy, Policy):
            raise CoopsimError(f"entry point {entry.name} of {GROUP} is no Policy")
        yield policy, f"entry point {entry.name}"


@lru_cache(maxsize=4)
def _offered(_path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Entry points on this path. Kept, as asking all installed packages takes milliseconds."""
    return tuple(importlib.metadata.entry_points(group=GROUP))


def fingerprint(spec: str) -> str:
    """What the policy of a user's file depends on: the hash of the file; empty for one that goes by name."""
    if ".py" not in spec:
        return ""
    path = Path(spec.partition(".py")[0] + ".py")
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _policies_of(path: Path) -> dict[str, Policy]:
    if not path.is_file():
        raise CoopsimError(f"{path}: no such policy file")
    digest = hashlib.sha256(path.read_bytes() + str(path.resolve()).encode()).hexdigest()[:16]
    name = f"coopsim_policy_{digest}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise CoopsimError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as e:
            del sys.modules[name]
            raise CoopsimError(
                f"{path}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'no message'}"
            ) from None
    return {key: value for key, value in vars(module).items() if isinstance(value, Policy)}


def _none(path: Path) -> CoopsimError:
    return CoopsimError(f"{path}: defines no Policy")
