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
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

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
    h.update((package / "types.py").read_bytes())  # whose order kernel/codes.py takes
    for room in _KERNEL_ROOMS:
        for source in sorted((package / room).rglob("*.py")):
            h.update(source.read_bytes())
    return h.hexdigest()[:16]


SOURCES_HASH = _hash_sources()  #: changes with any edit of any kernel
_CACHE = cache_dir() / f"kernels-{SOURCES_HASH}"


def is_cold() -> bool:
    """Whether the first replay of this process will have to compile (some seconds)."""
    return not numba.config.DISABLE_JIT and not any(_CACHE.rglob("*.nbc"))


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's, which before it loads machine code prepares the compiler: a quarter of a second for nothing."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code, or None if it must be compiled, for which the compiler prepares itself."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class Kernel:
    """A function that is compiled when it is first called: on its own by Python, as a part of it by another kernel.

    Neither is prepared at import, which would cost a millisecond each, and code from the cache needs only the first.
    """

    def __init__(self, function: Callable[..., Any], *, inline: bool) -> None:
        self.py_func = function
        self.__doc__ = function.__doc__
        # _nrt=False: kernels own no arrays, so none need reference counts; counting costs ten times the work itself.
        self._options = {"error_model": "numpy", "forceinline": inline, "nogil": True, "_nrt": False}

    def __call__(self, *arguments: Any) -> Any:
        return self.root(*arguments)

    @cached_property
    def root(self) -> Any:
        """What Python calls. All that it calls becomes part of it."""
        with cached_here():
            root = numba.njit(cache=True, **self._options)(self.py_func)
            root._cache = _Cache(self.py_func)
        finish = root.compile

        def compile_(signature: Any) -> Any:
            with all_parts_but(self.py_func.__qualname__):
                return finish(signature)

        root.compile = compile_
        return root

    @cached_property
    def _numba_type_(self) -> Any:
        """What kernels that name it get: one version for all constants, where Numba would make one for each."""
        part = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **self._options)(self.py_func)
        template = part.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            unliteral = numba.types.unliteral
            return template(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()})

        part.get_call_template = get_call_template
        self._part = part  # the type holds it weakly
        return numba.types.Dispatcher(part)


def kernel(function: F) -> F:
    """A compiled function that other kernels call. Division by zero gives inf, as in the C++ codes that we follow."""
    return _compiled(function, inline=False)


def inlined(function: F) -> F:
    """A small kernel, pasted into its callers."""
    return _compiled(function, inline=True)


def _compiled(function: F, *, inline: bool) -> F:
    result: Any = function if numba.config.DISABLE_JIT else Kernel(function, inline=inline)
    return result


@contextmanager
def cached_here() -> Iterator[None]:
    """What is compiled inside goes to our cache."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


if numba.config.DISABLE_JIT:
    now_ns = time.perf_counter_ns

else:
    _WORD = ir.IntType(64)

    @intrinsic  # type: ignore[untyped-decorator]
    def _clock(_typing: Any) -> Any:
        """clock_gettime(CLOCK_MONOTONIC), by symbol name, because an address cannot be cached."""

        def generate(_context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
            time_t = ir.ArrayType(_WORD, 2)
            at = cgutils.alloca_once(builder, time_t)
            kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), time_t.as_pointer()])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "clock_gettime"), [ir.IntType(32)(1), at])
            seconds, ns = (builder.load(cgutils.gep_inbounds(builder, at, 0, k)) for k in range(2))
            return builder.add(builder.mul(seconds, _WORD(1_000_000_000)), ns)

        return numba.int64(), generate

    @kernel
    def now_ns() -> int:
        """Monotonic wall clock."""
        now: int = _clock()
        return now
