"""Call a user's function from a kernel by its address: the state has one type whatever is called, the cache holds."""

# ruff: noqa: ARG001  (Numba passes an intrinsic the types of its arguments, by name)

import ctypes
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from coopsim.kernel.jit import inlined

if numba.config.DISABLE_JIT:
    _functions: dict[int, Callable[..., Any]] = {}

    def address_of(function: Any) -> int:
        """A number by which call_score or call_search finds `function`."""
        _functions[id(function)] = function
        return id(function)

    def call_score(address: int, cost: float, recency: float, nbytes: float, hole: float) -> float:
        """A user's score."""
        return float(_functions[address](cost, recency, nbytes, hole))

    def call_search(address: int, need: int) -> int:
        """A user's search: how many values it has put into the state's scratch."""
        return int(_functions[address](need))

else:

    def address_of(function: Any) -> int:
        """The machine address of a ctypes function, by which call_score or call_search finds it."""
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _caller(result: Any, arguments: list[Any]) -> Any:
        """Machine code that calls the function whose address is the first argument."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pointer = builder.inttoptr(values[0], ir.FunctionType(result, arguments).as_pointer())
            return builder.call(pointer, values[1:])

        return generate

    @intrinsic  # type: ignore[untyped-decorator]
    def _call_score(typing: Any, address: Any, cost: Any, recency: Any, nbytes: Any, hole: Any) -> Any:
        double = ir.DoubleType()
        return numba.float64(numba.int64, *[numba.float64] * 4), _caller(double, [double] * 4)

    @intrinsic  # type: ignore[untyped-decorator]
    def _call_search(typing: Any, address: Any, need: Any) -> Any:
        return numba.int64(numba.int64, numba.int64), _caller(ir.IntType(64), [ir.IntType(64)])

    @inlined
    def call_score(address: int, cost: float, recency: float, nbytes: float, hole: float) -> float:
        """A user's score."""
        return _call_score(address, cost, recency, nbytes, hole)

    @inlined
    def call_search(address: int, need: int) -> int:
        """A user's search: how many values it has put into the state's scratch."""
        return _call_search(address, need)
