"""Compile kernels with Numba, and what they call as parts of them. Imported only where code is missing in the cache.

This relies on how Numba 0.61 to 0.68 are built inside; where that fails, `ordinary.py` serves.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig

from coopsim.simulate.kernel import compiled_reference
from coopsim.simulate.kernel.compiled_array import ArrayTable
from coopsim.simulate.kernel.machine_code import ENTRY
from coopsim.simulate.kernel.reference import BundleKind

# _nrt=False: kernels own no arrays, so none need reference counts; counting costs ten times the work itself.
_OPTIONS = {"error_model": "numpy", "nogil": True, "_nrt": False, "no_cpython_wrapper": True}
_SCALARS = {int: numba.int64, float: numba.float64, bool: numba.boolean}


def compile_kernel(function: Any, kinds: tuple[Any, ...], *, inline: bool) -> tuple[str, bytes]:
    """The letters of what it returns (`machine_code`), and the machine code, for arguments of these types."""
    root = numba.njit(forceinline=inline, **_OPTIONS)(function)
    with all_parts_but(function.__qualname__), made():
        root.compile(tuple(map(_type, kinds)))
    (version,) = root.overloads.values()
    return letters(version.signature.return_type), code(version.library)


def _type(kind: Any) -> Any:
    if isinstance(kind, BundleKind):
        return compiled_reference.type_of(kind)
    return ArrayTable(numba.from_dtype(np.dtype(kind[0])), kind[1], 0) if isinstance(kind, tuple) else _SCALARS[kind]


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


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only ever linked into other code."""

    def _optimize_final_module(self) -> None:
        """The root's turn."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """There is no machine code to point to."""
        return 0

    @property
    def codegen(self) -> Any:
        return _Compiler(self._codegen)


class _Compiler:
    """Numba's code generator for a part, which has no place in memory to keep an environment."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Nothing to set: nopython code does not look at it."""


@contextmanager
def all_parts_but(root: str) -> Iterator[None]:
    """What is compiled inside, except the function with the name `root`, becomes a part."""
    codegen = cpu_target.target_context.codegen()
    make = codegen.create_library

    def create_library(name: str, **options: Any) -> Any:
        return make(name, **options) if name == root else _Part(codegen, name, **options)

    codegen.create_library = create_library
    compare = TargetConfig.__eq__, TargetConfig.__hash__
    TargetConfig.__eq__, TargetConfig.__hash__ = _same_options, _one_for_all
    try:
        yield
    finally:
        TargetConfig.__eq__, TargetConfig.__hash__ = compare
        del codegen.create_library


# Numba looks up each operator in tables whose keys hold all options of the compilation. It compares them, and hashes
# their names, by asking for one after the other: a tenth of all the time.


def _same_options(one: Any, other: Any) -> bool:
    return one is other or (isinstance(other, TargetConfig) and one._values == other._values)


def _one_for_all(_one: Any) -> int:
    return hash(TargetConfig)


_WORD = ir.IntType(64)
_LETTERS = {types.int64: "q", types.float64: "d", types.boolean: "?", types.none: ""}


def letters(result: Any) -> str:
    """A letter of `struct` per result; "?" is a truth value."""
    kinds = result.types if isinstance(result, types.BaseTuple) else [types.unliteral(result)]
    return "".join(_LETTERS[kind] for kind in kinds)


@contextmanager
def made() -> Iterator[None]:
    """What is compiled inside for Python to call gets this entry in place of Numba's wrapper for C."""
    context = cpu_target.target_context
    context.create_cfunc_wrapper = _write
    try:
        yield
    finally:
        del context.create_cfunc_wrapper


def _write(library: Any, function: Any, _environment: Any, _helper: Any) -> None:
    context = cpu_target.target_context
    module = context.create_module("entry")
    callee = ir.Function(
        module, context.call_conv.get_function_type(function.restype, function.argtypes), function.llvm_func_name
    )
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD.as_pointer()]), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    words = entry.args[0]

    def place(k: int, kind: Any) -> Any:
        return builder.bitcast(builder.gep(words, [_WORD(k)]), kind.as_pointer())

    given = []
    for k, kind in enumerate(function.argtypes, 1):
        is_word = kind in (types.int64, types.boolean)
        value = builder.load(place(k, _WORD if is_word else context.get_value_type(kind)))
        given.append(builder.trunc(value, ir.IntType(1)) if kind == types.boolean else value)
    status, out = context.call_conv.call_function(builder, callee, function.restype, function.argtypes, given)
    builder.store(builder.zext(status.is_error, _WORD), words)
    if isinstance(function.restype, types.BaseTuple):
        results = [(kind, builder.extract_value(out, k)) for k, kind in enumerate(function.restype.types)]
    else:
        results = [] if function.restype == types.none else [(types.unliteral(function.restype), out)]
    for k, (kind, value) in enumerate(results, 1):
        word = builder.zext(value, _WORD) if kind == types.boolean else value
        builder.store(word, place(k, word.type))
    builder.ret_void()
    library.add_ir_module(module)


def code(library: Any) -> bytes:
    """The machine code of a finished library, which needs nothing but C's own libraries."""
    process = ctypes.CDLL(None)
    for function in library._final_module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            assert hasattr(process, function.name), f"{function.name} is not in every process"
    found: bytes = library._get_compiled_object()
    return found
