"""Machine code of our own that kernels call."""

# ruff: noqa: ARG001  (Numba passes an intrinsic the types of its arguments, by name)

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_WORD, _DOUBLE = ir.IntType(64), ir.DoubleType()


def type_of(name: str) -> Any:
    """The type of an intrinsic of this file."""
    context = cpu_target.typing_context
    context.refresh()  # they were defined after a compilation had begun
    return context.resolve_value_type(_INTRINSICS[name])


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


def _caller(result: Any, arguments: list[Any]) -> Any:
    """Machine code that calls the function whose address is the first argument."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], ir.FunctionType(result, arguments).as_pointer())
        return builder.call(pointer, values[1:])

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def _call_score(typing: Any, address: Any, cost: Any, recency: Any, nbytes: Any, hole: Any) -> Any:
    return numba.float64(numba.int64, *[numba.float64] * 4), _caller(_DOUBLE, [_DOUBLE] * 4)


@intrinsic  # type: ignore[untyped-decorator]
def _call_hook(typing: Any, address: Any, what: Any, number: Any) -> Any:
    return numba.int64(numba.int64, numba.int64, numba.int64), _caller(_WORD, [_WORD, _WORD])


_INTRINSICS = {"clock": _clock, "call_score": _call_score, "call_hook": _call_hook}
