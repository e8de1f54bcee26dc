"""Compile kernels once and keep their machine code, in a cache that notices an edit in any kernel file.

The cache folder is named after a hash of the kernels' sources (`sources.py`): Numba's own cache watches only the file
of the function itself, and a caller would go on using an edited callee's old code. A process that finds all its kernels
there does not import Numba at all, a quarter of a second (`machine_code`). With NUMBA_DISABLE_JIT=1 kernels stay plain
Python: the same code, slowly, which the tests hold against the compiled one.
"""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from coopsim.base.files import cache_folder
from coopsim.base.progress import note
from coopsim.simulate.kernel import sources
from coopsim.simulate.kernel.reference import Bundle

F = TypeVar("F", bound=Callable[..., Any])
DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")  #: kernels stay Python


CACHE = cache_folder() / f"kernels-{sources.of_kernels()}"


#: The kernels that take longest to compile, by what users call them.
_LARGE = {"the replay core": "simulate.replay.loop.run", "the allocator": "simulate.allocators.caching.perform.perform"}


def is_cold(what: str = "the replay core") -> bool:
    """Whether the first call of a large kernel will have to compile it (some seconds)."""
    return not DISABLED and not any(CACHE.glob(f"{_LARGE[what]}-*.o"))


def note_if_cold(what: str = "the replay core") -> None:
    """Say on stderr what is about to be compiled, if it has to be."""
    if is_cold(what):
        note(f"compiling {what}: some seconds, once")


class Kernel:
    """A function that is compiled, or loaded from the cache, when Python calls it first.

    For each combination of types of its arguments there is a version of its own. All kernels that it calls are part of
    its machine code.
    """

    def __init__(self, function: Callable[..., Any], *, inline: bool) -> None:
        self.py_func, self.inline = function, inline
        self.__doc__ = function.__doc__
        self._versions: dict[tuple[Any, ...], Callable[[tuple[Any, ...]], Any]] = {}
        self._numba_types: dict[bool, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        kinds = tuple([a.kind if isinstance(a, Bundle) else _kind(a) for a in arguments])
        version = self._versions.get(kinds)
        if version is None:
            version = self._versions[kinds] = self._find(kinds)
        return version(arguments)

    def _find(self, kinds: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], Any]:
        from coopsim.simulate.kernel import machine_code

        def make() -> tuple[str, bytes]:
            from coopsim.simulate.kernel import compiler

            return compiler.compile_kernel(self.py_func, kinds, inline=self.inline)

        if not _ordinary:
            try:
                return machine_code.find(self.py_func, kinds, CACHE, make)
            except Exception as e:  # whatever another version of Numba raises
                _go_on_by_ordinary_means(e)
        from coopsim.simulate.kernel import ordinary

        compiled = ordinary.compiled(self.py_func, inline=self.inline)
        return lambda arguments: compiled(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What the compiler takes for it where another kernel calls it."""
        if _ordinary not in self._numba_types:
            if _ordinary:
                from coopsim.simulate.kernel.ordinary import callee_type
            else:
                from coopsim.simulate.kernel.compiler import callee_type
            self._numba_types[_ordinary] = callee_type(self.py_func, inline=self.inline)
        return self._numba_types[_ordinary]


_ordinary = False  #: whether kernels are compiled by Numba's ordinary means


def _go_on_by_ordinary_means(error: Exception) -> None:
    global _ordinary
    import numba

    _ordinary = True
    note(
        f"Numba {numba.__version__} is not built as coopsim knows it ({type(error).__name__}): kernels are compiled by "
        "its ordinary means, in each process anew, which takes longer"
    )


def _kind(argument: Any) -> Any:
    """The type of an argument: bool, int, float, or (dtype, dimensions) of an array."""
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return argument.dtype.str, argument.ndim
    if isinstance(argument, bool | np.bool_):
        return bool
    if isinstance(argument, float):
        return float
    assert isinstance(argument, int | np.integer), type(argument)
    return int


def kernel(function: F) -> F:
    """A compiled function that other kernels call. Division by zero gives inf, as in the C++ codes that we follow."""
    return _compiled(function, inline=False)


def inlined(function: F) -> F:
    """A small kernel, pasted into its callers."""
    return _compiled(function, inline=True)


def _compiled(function: F, *, inline: bool) -> F:
    result: Any = function if DISABLED else Kernel(function, inline=inline)
    return result


class Intrinsic:
    """A function of kernel.intrinsics, by name, which kernels call; interpreted, it is `otherwise`."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        """What the compiler takes for it."""
        from coopsim.simulate.kernel import intrinsics

        return intrinsics.type_of(self._name)


def intrinsic(name: str, otherwise: F) -> F:
    """Machine code of our own in compiled kernels; in interpreted ones the Python function `otherwise`."""
    result: Any = otherwise if DISABLED else Intrinsic(name)
    return result


now_ns: Callable[[], int] = intrinsic("clock", time.perf_counter_ns)  #: monotonic time, for kernels
