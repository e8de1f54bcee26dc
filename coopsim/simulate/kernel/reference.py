"""Hand a bundle of arrays to kernels by reference.

Numba passes a tuple of arrays by value: some thirty arrays of nine words each are copied at every call, which costs
more than most kernels do, and the compiler drowns in the arguments. A Bundle is passed as one pointer to a table of
where its arrays are (compiled by `kernel/compiled_reference.py`). `S.V[v, BLOCK]` reads the same, compiled or not.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

import numpy as np


class BundleKind:
    """What kernels are compiled for: a class of bundles, with the types of its fields. One object per kind.

    fields: name and None, the Kind of a bundle, or (dtype, dimensions, length of a row; 0: it varies) of an array.
    """

    def __init__(self, owner: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.owner, self.fields = owner, fields
        inside = ", ".join(f"{name}: {kind}" for name, kind in fields)
        self._text = f"{owner}({inside})"

    def __repr__(self) -> str:
        return self._text


_kind = cache(BundleKind)


@dataclass_transform(frozen_default=True, eq_default=False)
class Bundle:
    """The base of frozen dataclasses of arrays, other bundles and None, which kernels get by reference.

    The last dimension of an array of two or more is part of the kind, so that the compiler knows the length of a row.
    Arrays that the class names in WIDE are left out of that, as theirs varies.
    """

    WIDE: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        address: int  # of the table
        kind: BundleKind

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        table: list[int] = []
        kinds: list[tuple[str, Any]] = []
        for field in fields(self):  # type: ignore[arg-type]
            name, it = field.name, getattr(self, field.name)
            if it is None:
                kinds.append((name, None))
                table.append(0)
            elif isinstance(it, Bundle):
                kinds.append((name, it.kind))
                table.append(it.address)
            else:
                assert it.flags.c_contiguous, name
                row = it.shape[-1] if it.ndim > 1 and name not in self.WIDE else 0
                kinds.append((name, (it.dtype.str, it.ndim, row)))
                table += _words(it)
        words = np.array(table, np.int64)
        put = object.__setattr__  # the bundle is frozen
        put(self, "_words", words)
        put(self, "address", words.ctypes.data)
        put(self, "kind", _kind(type(self).__qualname__, tuple(kinds)))


def _words(array: Any) -> list[int]:
    return [array.ctypes.data, *array.shape]


def words_of(array: Any) -> Any:
    """What a kernel gets of an array that is no part of a bundle: where its elements are, and its shape."""
    return np.array(_words(array), np.int64)
