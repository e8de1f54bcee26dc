"""The files that a script's run depends on, as far as its command and its sources tell."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from coopsim.base.types import MIB, CoopsimError
from coopsim.fitting.editing import texts

_CONFIGURATIONS = {".cfg", ".ini", ".json", ".toml", ".yaml", ".yml"}


def digest(command: tuple[str, ...]) -> str:
    """Return a hash of the files that a command depends on.

    They are those that its words name, the modules beside the script that it imports, and they in turn, and the
    configurations in the script's folder. Files that the script opens otherwise are not known.
    """
    found = hashlib.sha256()
    named = [Path(word.rpartition("=")[2]) for word in command]
    named = [path for path in named if path.is_file()]
    scripts = [path for path in named if path.suffix == ".py"]
    files = {*named, *(module for path in scripts for module in _modules(path, path.parent, set()))}
    for folder in {path.parent for path in scripts}:
        files |= {path for path in folder.iterdir() if path.suffix in _CONFIGURATIONS and path.is_file()}
    for path in sorted(files):
        state = path.stat()
        found.update(str(path).encode())
        found.update(path.read_bytes() if state.st_size <= MIB else f"{state.st_size} {state.st_mtime_ns}".encode())
    return found.hexdigest()


def _modules(file: Path, root: Path, seen: set[Path]) -> set[Path]:
    """Return the files of the modules that a file imports from the script's folder `root`, and they in turn."""
    seen.add(file)
    try:
        tree = ast.parse(texts.read(file))
    except (SyntaxError, CoopsimError):
        return seen
    for path in _imported(tree, root, file.parent):
        if path not in seen and path.is_file():
            _modules(path, root, seen)
    return seen


def _imported(tree: ast.Module, root: Path, folder: Path) -> Iterator[Path]:
    """Yield where the modules that a file of `folder` imports would be: packages on the way, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, at = [alias.name for alias in node.names], root
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            names = [f"{module}{alias.name}" for alias in node.names]
            at = folder.joinpath(*[".."] * max(node.level - 1, 0)).resolve() if node.level else root
        else:
            continue
        for name in names:
            place = at
            for part in name.split("."):
                place /= part
                yield place.with_name(f"{part}.py")
                yield place / "__init__.py"
