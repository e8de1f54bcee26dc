"""Kernels by Numba's ordinary means, which its documentation of extensions has.

Where Numba is built inside in another way than `compiler.py` knows, kernels are compiled so: in each process anew, and
in more time.
"""

from typing import Any

import numba
from llvmlite import ir
from numba.extending import NativeValue, typeof_impl, unbox

from coopsim.simulate.kernel.compiled_reference import Reference, type_of
from coopsim.simulate.kernel.reference import Bundle

_OPTIONS = {"error_model": "numpy", "nogil": True}
_kept: list[Any] = []  #: the types hold them weakly


def compiled(function: Any, *, inline: bool) -> Any:
    """The function, compiled for each combination of types of its arguments that it is called with."""
    return numba.njit(forceinline=inline, **_OPTIONS)(function)


def callee_type(function: Any, *, inline: bool) -> Any:
    """What kernels that name it get."""
    part = compiled(function, inline=inline)
    _kept.append(part)
    return numba.types.Dispatcher(part)


@typeof_impl.register(Bundle)  # type: ignore[untyped-decorator]
def _type_of_bundle(bundle: Bundle, _context: Any) -> Any:
    return type_of(bundle.kind)


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox(_type: Any, bundle: Any, c: Any) -> Any:
    """The address of its table, as a pointer."""
    address = c.pyapi.object_getattr_string(bundle, "address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word, ir.IntType(8).as_pointer()))
