"""Compile kernels once and keep them: Numba, with a cache that notices an edit in any kernel file.

Numba's own cache watches only the file of the function itself; a caller would go on using an edited callee's old
machine code. So the cache folder is named after a hash of all kernel sources. With NUMBA_DISABLE_JIT=1 kernels stay
plain Python: the same code, slowly, which the tests hold against the compiled one.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from coopsim.kernel.parts import all_parts_but

F = TypeVar("F", bound=Callable[..., Any])
_KERNEL_ROOMS = ("kernel", "planner", "allocators", "replay", "simrd")


def cache_dir() -> Path:
    """Where compiled code is kept: $COOPSIM_CACHE_DIR, or coopsim in the user's cache folder."""
    home = os.environ.get("COOPSIM_CACHE_DIR")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coopsim"


def _hash_sources() -> str:
    package = Path(__file__).parent.parent
    h = hashlib.sha256()
    for room in _KERNEL_ROOMS:
        for source in sorted((package / room).rglob("*.py")):
            h.update(source.read_bytes())
    return h.hexdigest()[:16]


SOURCES_HASH = _hash_sources()  #: changes with any edit of any kernel
_CACHE = cache_dir() / f"kernels-{SOURCES_HASH}"


def is_cold() -> bool:
    """Whether the first replay of this process will have to compile (some seconds)."""
    return not numba.config.DISABLE_JIT and not any(_CACHE.rglob("*.nbc"))


def kernel(function: F) -> F:
    """A compiled function that other kernels call. Division by zero gives inf, as in the C++ codes that we follow."""
    return _compile(function, inline=False)


def inlined(function: F) -> F:
    """A small kernel, pasted into its callers: passing the state to a real call costs more than it does."""
    return _compile(function, inline=True)


@contextmanager
def cached_here() -> Iterator[None]:
    """What is compiled inside goes to our cache."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _compile(function: F, *, inline: bool) -> F:
    # _nrt=False: kernels own no arrays, so none need reference counts; counting costs ten times the work itself.
    options: dict[str, Any] = {"error_model": "numpy", "forceinline": inline, "nogil": True, "_nrt": False}
    with cached_here():
        root: Any = numba.njit(cache=True, **options)(function)
    if not numba.config.DISABLE_JIT:
        _compile_as_root(root)
        _let_kernels_call(root, numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function))
    result: F = root
    return result


def _compile_as_root(root: Any) -> None:
    """When Python calls it, all that it calls becomes part of it."""
    finish = root.compile

    def compile_(signature: Any) -> Any:
        with all_parts_but(root.py_func.__qualname__):
            return finish(signature)

    root.compile = compile_


def _let_kernels_call(root: Any, part: Any) -> None:
    """Kernels that name `root` get `part`, in one version for all constants; Numba would make one for each."""
    template = part.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        unliteral = numba.types.unliteral
        return template(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()})

    root.get_call_template, root.get_overload = get_call_template, part.get_overload


if numba.config.DISABLE_JIT:

    def now_ns(clock: Any) -> int:  # noqa: ARG001
        """Monotonic wall clock."""
        return time.perf_counter_ns()

else:
    # By symbol name, because a ctypes pointer cannot be cached.
    _clock_gettime = numba.types.ExternalFunction(
        "clock_gettime", numba.types.int32(numba.types.int32, numba.types.uintp)
    )
    _CLOCK_MONOTONIC = np.int32(1)

    @kernel
    def now_ns(clock: Any) -> int:
        """Monotonic wall clock; `clock` is an int64[2] to write to."""
        _clock_gettime(_CLOCK_MONOTONIC, clock.ctypes.data)
        return clock[0] * 1_000_000_000 + clock[1]
