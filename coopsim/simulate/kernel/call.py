"""What kernels call that is not theirs: a user's function by its address, and parts that only some states have."""

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

from coopsim.simulate.kernel.jit import DISABLED, intrinsic

_functions: dict[int, Callable[..., Any]] = {}  #: of interpreted kernels, by what stands for an address


def address_of(function: Any) -> int:
    """The machine address of a ctypes function, by which call_score or call_hook finds it."""
    if DISABLED:
        _functions[id(function)] = function
        return id(function)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _score(address: int, cost: float, recency: float, nbytes: float, hole: float) -> float:
    return float(_functions[address](cost, recency, nbytes, hole))


def _hook(address: int, what: int, number: int) -> int:
    return int(_functions[address](what, number))


call_score = intrinsic("call_score", _score)  #: a user's score: of address, cost, recency, bytes, hole
call_hook = intrinsic("call_hook", _hook)  #: Python's part of a replay: of address, what is told or asked, a number


F = TypeVar("F", bound=Callable[..., Any])


class Optional:
    """A kernel, or in a state whose `field` is None a function that is never reached."""

    def __init__(self, field: str, function: Any, otherwise: Callable[..., Any]) -> None:
        self.field, self.function, self.otherwise = field, function, otherwise
        self._numba_type: Any = None

    @property
    def _numba_type_(self) -> Any:
        """What the compiler takes for it where a kernel calls it."""
        if self._numba_type is None:
            from coopsim.simulate.kernel.compiled_reference import optional_type

            self._numba_type = optional_type(self.field, self.function.py_func, self.otherwise)
        return self._numba_type


def where_present(field: str, function: F, otherwise: Callable[..., Any]) -> F:
    """What kernels call in place of `function`, whose first argument is the state.

    In a state whose `field` is None it compiles to `otherwise`, which is never reached, and whose result has the type
    of the function's. So the compiled core has a version without the function and what it calls.
    """
    result: Any = function if DISABLED else Optional(field, function, otherwise)
    return result
