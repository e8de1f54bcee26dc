"""Kernels for a part of the state that only some states have: others do not compile them."""

from collections.abc import Callable
from typing import Any, TypeVar

from coopsim.kernel.jit import DISABLED

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
            from coopsim.kernel.compiler import optional_type

            self._numba_type = optional_type(self.field, self.function.py_func, self.otherwise)
        return self._numba_type


def where_present(field: str, function: F, otherwise: Callable[..., Any]) -> F:
    """What kernels call in place of `function`, whose first argument is the state.

    In a state whose `field` is None it compiles to `otherwise`, which is never reached, and whose result has the type
    of the function's. So the compiled core has a version without the function and what it calls.
    """
    result: Any = function if DISABLED else Optional(field, function, otherwise)
    return result
