"""What results depend on, as hashes of source files: machine code on the modules of kernels, replays on more."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
#: Folders of the simulator in which there are kernels, and the modules outside of these that kernels use.
_FOLDERS = ("kernel", "packing", "allocators", "planning", "replay")
_OTHERS = ("base/types.py", "cards/engine.py", "trace/request_rows.py")
_IMPORT = re.compile(rb"^[ \t]*from coopsim\.([\w.]+) import (\([^)]*\)|[^(\n]+)", re.MULTILINE)
_HOLDS_KERNELS = re.compile(rb"^from coopsim\.simulate\.kernel\.jit import .*\b(?:kernel|inlined)\b", re.MULTILINE)


def of_kernels() -> str:
    """Of what machine code depends on."""
    found = texts()
    return _hash(found[name] for name in sorted(files_of_kernels(found)))


@cache
def of_replays() -> str:
    """Of all these files: what comes of a replay may depend on each."""
    found = texts()
    return _hash(found[name] for name in sorted(found))


def files_of_kernels(texts: dict[str, bytes]) -> set[str]:
    """The modules that hold kernels, what they import of these files, and the compiler (`kernel/`).

    Kernels take constants from what they import, and compiled code has them inside.
    """
    found = {name for name, text in texts.items() if name.startswith("simulate/kernel/") or _HOLDS_KERNELS.search(text)}
    todo = [*found]
    while todo:
        new = _imported(texts[todo.pop()]) & texts.keys() - found
        found |= new
        todo += new
    return found | {"base/types.py"}


def texts() -> dict[str, bytes]:
    """Of the files, by path within coopsim."""
    folders = [_PACKAGE / "simulate" / name for name in _FOLDERS]
    files = [*(_PACKAGE / name for name in _OTHERS), *(file for folder in folders for file in folder.rglob("*.py"))]
    return {file.relative_to(_PACKAGE).as_posix(): file.read_bytes() for file in files}


def _imported(text: bytes) -> set[str]:
    """Files that a module may import: `from coopsim.a.b import c` is of a/b.py, a/b/__init__.py or a/b/c.py."""
    found = set()
    for module, names in _IMPORT.findall(text):
        path = module.decode().replace(".", "/")
        parts = [path, f"{path}/__init__", *(f"{path}/{name.decode()}" for name in re.findall(rb"\w+", names))]
        found |= {f"{part}.py" for part in parts}
    return found


def _hash(texts: Iterable[bytes]) -> str:
    h = hashlib.sha256()
    for text in texts:
        h.update(text)
    return h.hexdigest()[:16]
