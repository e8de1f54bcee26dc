"""The function through which Python enters a kernel's machine code, and the code itself.

It takes one pointer to words of 64 bits. Word 0 says afterwards whether the kernel raised; from word 1 on stand the
arguments, a pointer for each bundle and array, and afterwards the results. Numba's own entries want Numba in the
process that calls them.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from coopsim.kernel.machine_code import ENTRY

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
