"""Kernels for a part of the state that only some states have: others do not compile them."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])


def where_present(field: str, function: F, otherwise: Callable[..., Any]) -> F:
    """What kernels call in place of `function`, whose first argument is the state.

    In a state whose `field` is None it compiles to `otherwise`, which is never reached, and whose result has the type
    of the function's. So the compiled core has a version without the function and what it calls.
    """
    if numba.config.DISABLE_JIT:
        return function

    def stand_in(*arguments: Any) -> Any:
        raise NotImplementedError

    def choose(state: Any, *arguments: Any) -> Any:  # noqa: ARG001
        is_there = not isinstance(state.kinds[field], numba.types.NoneType)
        return function.py_func if is_there else otherwise  # type: ignore[attr-defined]

    overload(stand_in, jit_options={"_nrt": False, "error_model": "numpy"}, strict=False)(choose)
    return stand_in  # type: ignore[return-value]
