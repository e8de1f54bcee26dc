"""Hand a bundle of arrays to kernels by reference.

Numba passes a tuple of arrays by value: some thirty arrays of nine words each are copied at every call, which costs
more than most kernels do, and the compiler drowns in the arguments. A Bundle is passed as one pointer to a table of
where its arrays are. `S.V[v, BLOCK]` reads the same, compiled or not.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, unbox

from coopsim.kernel.array import Table, load_word


class Reference(types.Type):
    """The type of a bundle: what it is a bundle of, and at which word of the table each is.

    The last dimension of an array of two or more is part of the type, so that the compiler knows the length of a row.
    Arrays that the class names in WIDE are left out of that, as theirs varies.
    """

    def __init__(self, owner: str, kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        self.at, words = {}, 0
        for name, kind in kinds.items():
            self.at[name] = words
            words += 1 + kind.ndim if isinstance(kind, Table) else 1
        inside = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        super().__init__(name=f"{owner}({inside})")


@dataclass_transform(frozen_default=True, eq_default=False)
class Bundle:
    """The base of frozen dataclasses of arrays, other bundles and None, which kernels get by reference."""

    WIDE: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        address: int  # of the table
        _numba_type_: Reference

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        table: list[int] = []
        shape: list[Any] = []  # all that the type depends on
        for field in fields(self):  # type: ignore[arg-type]
            name, it = field.name, getattr(self, field.name)
            if it is None:
                shape.append((name, None))
                table.append(0)
            elif isinstance(it, Bundle):
                shape.append((name, it._numba_type_))
                table.append(it.address)
            else:
                assert it.flags.c_contiguous, name
                shape.append((name, it.dtype, it.ndim, it.shape[-1] if it.ndim > 1 and name not in self.WIDE else 0))
                table += [it.ctypes.data, *it.shape]
        words = np.array(table, np.int64)
        put = object.__setattr__  # the bundle is frozen
        put(self, "_words", words)
        put(self, "address", words.ctypes.data)
        put(self, "_numba_type_", _reference(type(self).__qualname__, tuple(shape)))


@cache
def _reference(owner: str, shape: tuple[Any, ...]) -> Reference:
    kinds = dict[str, Any]()
    for name, kind, *rest in shape:
        if kind is None:
            kinds[name] = types.none
        elif isinstance(kind, Reference):
            kinds[name] = kind
        else:
            kinds[name] = Table(numba.from_dtype(kind), *rest)
    return Reference(owner, kinds)


@register_model(Reference)
class _Model(models.OpaqueModel):  # type: ignore[misc]
    """A pointer."""


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox(_kind: Reference, obj: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(obj, "address")
    pointer = c.builder.inttoptr(c.pyapi.long_as_longlong(number), c.context.get_value_type(types.voidptr))
    c.pyapi.decref(number)
    return NativeValue(pointer)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> Any:
        return kind.kinds.get(name)


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, kind: Reference, pointer: Any, name: str) -> Any:
    """Where the table has the array's address and lengths; of another bundle, where that has its own table."""
    field = kind.kinds[name]
    if field is types.none:
        return context.get_dummy_value()
    if isinstance(field, Reference):
        return builder.inttoptr(load_word(builder, pointer, kind.at[name]), context.get_value_type(types.voidptr))
    return builder.gep(pointer, [ir.IntType(64)(8 * kind.at[name])])
