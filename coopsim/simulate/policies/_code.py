"""What the code of a function may read, and whose it is."""

import dis
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parents[2])
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
#: Names in code that read what only running it shows: a generator may have no seed, and a hash of text depends on the
#: process.
DYNAMIC = {
    *("open", "input", "exec", "eval", "globals", "locals", "vars", "getattr", "__import__"),
    *("default_rng", "hash", "id"),
}
#: Functions whose answer is not a matter of their arguments, by module.
UNKNOWABLE = {
    "datetime": {"datetime", "date"},
    "random": {"Random", "SystemRandom"},
    "time": {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"},
    "os": {"urandom", "getpid"},
    "uuid": {"uuid1", "uuid4"},
    "io": {"open"},
    "importlib": {"import_module"},
}


def parts(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from parts(constant)


def globals_of(code: types.CodeType) -> list[str]:
    """Names that may be read of the globals (attributes are among them: reading too much is safe)."""
    return sorted({name for part in parts(code) for name in part.co_names})


def imports_of(code: types.CodeType) -> list[tuple[str, int]]:
    """Modules that the code imports while it runs, each with how relative the import is."""
    found = []
    for part in parts(code):
        before: list[Any] = []
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                level = next((b.argval for b in before[-2:] if isinstance(b.argval, int)), 0)
                found.append((str(step.argval), level))
            before.append(step)
    return found


def is_local(file: str | None, module: str | None) -> bool:
    """Whether code is the user's: not coopsim's, Python's, or an installed package's."""
    if not file:
        owner = sys.modules.get(module or "")
        file = getattr(owner, "__file__", None)
        if not file:
            return module not in sys.builtin_module_names and module != "builtins"
    path = os.path.abspath(file) if not file.startswith("<") else file
    if path.startswith("<frozen"):
        return False
    return not any(path.startswith(f"{root}{os.sep}") for root in (_PACKAGE, *_INSTALLED))


is_local_file = lru_cache(1024)(lambda file: is_local(file, None))  #: whether a file is the user's
