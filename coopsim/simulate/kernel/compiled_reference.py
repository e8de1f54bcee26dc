"""A bundle as kernels see it: a pointer to the table of where its arrays are."""

from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_getattr_generic
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import models, overload, register_model

from coopsim.simulate.kernel.compiled_array import ArrayTable, load_word
from coopsim.simulate.kernel.reference import BundleKind


class Reference(types.Type):
    """The type of a bundle: what it is a bundle of, and at which word of the table each is."""

    def __init__(self, name: str, kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        self.at, words = {}, 0
        for field, kind in kinds.items():
            self.at[field] = words
            words += 1 + kind.ndim if isinstance(kind, ArrayTable) else 1
        super().__init__(name=name)


@cache
def type_of(kind: BundleKind) -> Reference:
    """The type of the bundles of this kind."""
    kinds = dict[str, Any]()
    for name, field in kind.fields:
        if field is None:
            kinds[name] = types.none
        elif isinstance(field, BundleKind):
            kinds[name] = type_of(field)
        else:
            dtype, dimensions, row = field
            kinds[name] = ArrayTable(numba.from_dtype(np.dtype(dtype)), dimensions, row)
    return Reference(repr(kind), kinds)


@register_model(Reference)
class _Model(models.OpaqueModel):  # type: ignore[misc]
    """A pointer."""


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


def optional_type(field: str, function: Any, otherwise: Any) -> Any:
    """What kernels that name it get: which of the two functions depends on a field of the first argument, the state."""

    def stand_in(*arguments: Any) -> Any:
        raise NotImplementedError

    def choose(state: Any, *arguments: Any) -> Any:  # noqa: ARG001
        is_there = not isinstance(state.kinds[field], numba.types.NoneType)
        return function if is_there else otherwise

    overload(stand_in, jit_options={"error_model": "numpy"}, strict=False)(choose)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(stand_in)
