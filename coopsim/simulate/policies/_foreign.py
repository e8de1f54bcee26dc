"""Policies that are not ours: in a user's file, in folders, in installed packages."""

import ast
import hashlib
import importlib.metadata
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.simulate.policies._code import is_local_file
from coopsim.simulate.policies._eviction_policy import EvictionPolicy
from coopsim.simulate.policies._space import Policy

FOLDERS = "COOPSIM_POLICIES"
GROUP = "coopsim.policies"

Found = Policy | EvictionPolicy | type[EvictionPolicy]


def said(e: BaseException) -> str:
    """What was raised, and in which line of the user's, as one line."""
    text = str(e).splitlines()[0] if str(e) else "no message"
    what = f"{type(e).__name__}: {text}"
    if isinstance(e, SyntaxError):
        return what  # says where
    theirs = [frame for frame in traceback.extract_tb(e.__traceback__) if is_local_file(frame.filename)]
    if not theirs:
        return what
    file, line = theirs[-1].filename, theirs[-1].lineno or 0
    source = linecache.getline(file, line).strip()
    return f"{Path(file).name}:{line}: {what}" + (f", in `{source}`" if source else "")


def in_file(path: Path, name: str = "") -> Found:
    """The policy `name` of a Python file; without a name, the only one there. CoopsimError if there is none."""
    found = _policies_of(path)
    if name:
        if name not in found:
            raise unknown("policy", name, found, hint=f" (in {path})") if found else _none(path)
        return found[name]
    if len(found) != 1:
        raise CoopsimError(f"{path}: say which of its policies: {', '.join(found)}") if found else _none(path)
    return next(iter(found.values()))


def in_folders() -> Iterator[tuple[Found, str]]:
    """All policies of the Python files in the folders that $COOPSIM_POLICIES lists, with their file."""
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        if not Path(folder).is_dir():
            raise CoopsimError(f"{FOLDERS}: {folder} is no folder")
        for path in sorted(Path(folder).glob("*.py")):
            for policy in _policies_of(path).values():
                yield policy, str(path)


def in_packages() -> Iterator[tuple[Found, str]]:
    """Policies that installed packages offer as entry points."""
    for entry in _offered(tuple(sys.path)):
        policy = entry.load()
        if not _is_policy(policy):
            raise CoopsimError(f"entry point {entry.name} of {GROUP} is no Policy")
        yield policy, f"entry point {entry.name}"


@lru_cache(maxsize=4)
def _offered(_path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Entry points on this path. Kept, as asking all installed packages takes milliseconds."""
    return tuple(importlib.metadata.entry_points(group=GROUP))


def _is_policy(it: Any) -> bool:
    is_class = isinstance(it, type) and issubclass(it, EvictionPolicy) and it is not EvictionPolicy
    return is_class or isinstance(it, Policy | EvictionPolicy)


_modules: dict[Path, tuple[types.ModuleType, dict[Path, bytes]]] = {}  #: of each file, with all texts it was made from


def forget(path: Path | None = None) -> None:
    """Execute a policy file, and what it imports of the user's, anew when it is next asked for; without a path, all."""
    for file in [path.resolve()] if path else [*_modules]:
        module, texts = _modules.pop(file, (None, {}))
        for name, imported in [*sys.modules.items()]:
            origin = getattr(imported, "__file__", None)
            if imported is module or (origin and name != "__main__" and Path(origin).resolve() in texts):
                del sys.modules[name]


def _policies_of(path: Path) -> dict[str, Found]:
    if not path.is_file():
        raise CoopsimError(f"{path}: no such policy file")
    path = Path(path)
    kept = _modules.get(path.resolve())
    if kept is not None and any(_text(file) != text for file, text in kept[1].items()):
        forget(path)
        kept = None
    module = kept[0] if kept else _execute(path)
    return {
        key: value
        for key, value in vars(module).items()
        if _is_policy(value) and (not isinstance(value, type) or value.__module__ == module.__name__)
    }


def _execute(path: Path) -> types.ModuleType:
    """The file as a module, from its text: Python's kept bytecode does not tell edits within a second apart."""
    text = path.read_bytes()
    digest = hashlib.sha256(text + str(path.resolve()).encode()).hexdigest()[:16]
    module = types.ModuleType(f"coopsim_policy_{digest}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102  (as importing it would)
    except (Exception, SystemExit) as e:
        del sys.modules[module.__name__]
        raise CoopsimError(f"{path}: {said(e)}") from None
    finally:
        sys.dont_write_bytecode = writes
    texts = {path.resolve(): text}
    _imported(text, texts)
    _modules[path.resolve()] = module, texts
    return module


def _imported(text: bytes, texts: dict[Path, bytes]) -> None:
    """Add the texts of the user's own modules that a text imports, and that these import."""
    names = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and file.endswith(".py") and is_local_file(file) and Path(file).resolve() not in texts:
            texts[Path(file).resolve()] = _text(Path(file))
            _imported(texts[Path(file).resolve()], texts)


def _text(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _none(path: Path) -> CoopsimError:
    return CoopsimError(f"{path}: defines no Policy and no EvictionPolicy")
