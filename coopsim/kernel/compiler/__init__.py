"""Compile kernels with Numba. Imported only where code is missing in the cache."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core.registry import cpu_target
from numba.extending import overload

from coopsim.kernel.compiler import entry, reference
from coopsim.kernel.compiler.array import Table
from coopsim.kernel.compiler.parts import all_parts_but
from coopsim.kernel.reference import Kind

# _nrt=False: kernels own no arrays, so none need reference counts; counting costs ten times the work itself.
_OPTIONS = {"error_model": "numpy", "nogil": True, "_nrt": False, "no_cpython_wrapper": True}
_SCALARS = {int: numba.int64, float: numba.float64, bool: numba.boolean}


def compile_kernel(function: Any, kinds: tuple[Any, ...], *, inline: bool) -> tuple[str, bytes]:
    """The letters of what it returns (`machine_code`), and the machine code, for arguments of these types."""
    root = numba.njit(forceinline=inline, **_OPTIONS)(function)
    with all_parts_but(function.__qualname__), entry.made():
        root.compile(tuple(map(_type, kinds)))
    (version,) = root.overloads.values()
    return entry.letters(version.signature.return_type), entry.code(version.library)


def _type(kind: Any) -> Any:
    if isinstance(kind, Kind):
        return reference.type_of(kind)
    return Table(numba.from_dtype(np.dtype(kind[0])), kind[1], 0) if isinstance(kind, tuple) else _SCALARS[kind]


def callee_type(function: Any, *, inline: bool) -> Any:
    """What kernels that name it get: one version for all constants, where Numba would make one for each."""
    part = numba.njit(no_cfunc_wrapper=True, forceinline=inline, **_OPTIONS)(function)
    template = part.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        unliteral = numba.types.unliteral
        return template(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()})

    part.get_call_template = get_call_template
    _parts.append(part)  # the type holds it weakly
    return numba.types.Dispatcher(part)


_parts: list[Any] = []


def optional_type(field: str, function: Any, otherwise: Callable[..., Any]) -> Any:
    """What kernels that name it get: which of the two functions depends on a field of the first argument, the state."""

    def stand_in(*arguments: Any) -> Any:
        raise NotImplementedError

    def choose(state: Any, *arguments: Any) -> Any:  # noqa: ARG001
        is_there = not isinstance(state.kinds[field], numba.types.NoneType)
        return function if is_there else otherwise

    overload(stand_in, jit_options={"_nrt": False, "error_model": "numpy"}, strict=False)(choose)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(stand_in)
