"""An array of a bundle as kernels see it: a pointer to where the bundle says that its numbers are.

Reads and writes single elements, and has a shape; slices and arithmetic are NumPy's and Python's. Numba's own arrays
can do all that, and each access makes code for it that is then optimised away: half of the time that compiling took.
Unlike theirs an index below zero is not counted from the end (tests/simulate/kernel/test_array.py sees that kernels use
none).
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.imputils import lower_builtin, lower_getattr
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import models, register_model

_WORD = ir.IntType(64)


class ArrayTable(types.Type):  # type: ignore[misc]
    """The type of an array of `dtype` with `ndim` dimensions; of two, its rows have `columns` elements (0: it varies).

    The value is a pointer to words: the address of the elements, and the length of each dimension.
    """

    def __init__(self, dtype: Any, ndim: int, columns: int) -> None:
        self.dtype, self.ndim, self.columns = dtype, ndim, columns
        super().__init__(name=f"Table({dtype}, {ndim}, {columns})")


@register_model(ArrayTable)
class _Model(models.OpaqueModel):  # type: ignore[misc]
    """A pointer."""


def load_word(builder: Any, pointer: Any, k: int) -> Any:
    """Word k. It never changes while a kernel runs, so it is read once."""
    words = builder.bitcast(pointer, _WORD.as_pointer())
    value = builder.load(builder.gep(words, [_WORD(k)]))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _length(builder: Any, kind: ArrayTable, pointer: Any, dimension: int) -> Any:
    if kind.columns and dimension == kind.ndim - 1:
        return _WORD(kind.columns)
    return load_word(builder, pointer, 1 + dimension)


def _fits(kind: Any, index: Any) -> bool:
    if not isinstance(kind, ArrayTable):
        return False
    indices = index.types if isinstance(index, types.BaseTuple) else [index]
    return len(indices) == kind.ndim and all(isinstance(i, types.Integer) for i in indices)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:  # noqa: ARG002
        table, index = args
        return signature(table.dtype, table, index) if _fits(table, index) else None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:  # noqa: ARG002
        table, index, _ = args
        return signature(types.none, table, index, table.dtype) if _fits(table, index) else None


@infer_global(len)
class _Len(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:  # noqa: ARG002
        return signature(types.intp, *args) if isinstance(args[0], ArrayTable) else None


@lower_builtin(len, ArrayTable)  # type: ignore[untyped-decorator]
def _len(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _length(builder, sig.args[0], args[0], 0)


def _element(context: Any, builder: Any, kind: ArrayTable, pointer: Any, index_kind: Any, index: Any) -> Any:
    """A pointer to an element."""
    if isinstance(index_kind, types.BaseTuple):
        pairs = [(k, builder.extract_value(index, n)) for n, k in enumerate(index_kind.types)]
    else:
        pairs = [(index_kind, index)]
    at = None
    for dimension, (k, i) in enumerate(pairs):
        word = context.cast(builder, i, k, types.intp)
        at = word if at is None else builder.add(builder.mul(at, _length(builder, kind, pointer, dimension)), word)
    first = builder.inttoptr(load_word(builder, pointer, 0), context.get_data_type(kind.dtype).as_pointer())
    return builder.gep(first, [at], inbounds=True)


@lower_builtin(operator.getitem, ArrayTable, types.Integer)  # type: ignore[untyped-decorator]
@lower_builtin(operator.getitem, ArrayTable, types.BaseTuple)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index = sig.args
    return context.unpack_value(builder, kind.dtype, _element(context, builder, kind, args[0], index, args[1]))


@lower_builtin(operator.setitem, ArrayTable, types.Integer, types.Any)  # type: ignore[untyped-decorator]
@lower_builtin(operator.setitem, ArrayTable, types.BaseTuple, types.Any)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index, value = sig.args
    number = context.cast(builder, args[2], value, kind.dtype)
    context.pack_value(builder, kind.dtype, number, _element(context, builder, kind, args[0], index, args[1]))
    return context.get_dummy_value()


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = ArrayTable

    def resolve_shape(self, kind: ArrayTable) -> Any:
        return types.UniTuple(types.intp, kind.ndim)


@lower_getattr(ArrayTable, "shape")  # type: ignore[untyped-decorator]
def _shape(context: Any, builder: Any, kind: ArrayTable, pointer: Any) -> Any:
    lengths = [_length(builder, kind, pointer, d) for d in range(kind.ndim)]
    return context.make_tuple(builder, types.UniTuple(types.intp, kind.ndim), lengths)
