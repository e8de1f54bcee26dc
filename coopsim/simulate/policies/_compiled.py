"""A search that Numba compiles, as a method of an EvictionPolicy."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from coopsim.base.types import CoopsimError

COLUMNS = ("address", "bytes", "value", "can_go", "score", "last_use")  #: of all blocks, in address order


class compiled:  # noqa: N801  (a decorator)
    """Decorates `choose`, so that it runs as machine code: a function over arrays that Numba compiles.

    Its arguments go by their names, and there is no `self`. A column of the memory's table (`address`, `bytes`,
    `value`, `can_go`, `score`, `last_use`) is an array; `need` the bytes needed; `out` the array for the numbers of the
    values to evict, of which it returns how many there are. Any other name is a parameter of the class (a number), or
    an array of int64 or float64 that `start` has made an attribute: what is written to it is the policy's state.
    """

    def __init__(self, function: Callable[..., int]) -> None:
        self.function = getattr(function, "__func__", function)  # of a staticmethod, too

    def names(self, owner: str, parameters: Mapping[str, type]) -> tuple[str, ...]:
        """Its arguments. CoopsimError if they cannot be given."""
        arguments = tuple(inspect.signature(self.function).parameters)
        for name in ("need", "out"):
            if name not in arguments:
                raise CoopsimError(f"{owner}.choose is compiled, and needs an argument {name}")
        for name in arguments:
            if parameters.get(name) is str:
                raise CoopsimError(f"{owner}.choose is compiled, and cannot take the text {name}")
        return arguments

    def __set_name__(self, owner: type, name: str) -> None:
        if name != "choose":
            raise CoopsimError(f"{owner.__name__}.{name}: only choose is compiled")


def arrays_of(instance: Any, names: tuple[str, ...], parameters: Mapping[str, type]) -> dict[str, Any]:
    """The arrays of an instance that the arguments name. CoopsimError for one that there is not, or of another kind."""
    import numpy as np

    found = {}
    for name in names:
        if name in (*COLUMNS, "need", "out", *parameters):
            continue
        array: Any = getattr(instance, name, None)
        usable = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.c_contiguous
        if not usable or array.dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
            raise CoopsimError(
                f"{type(instance).__name__}.choose: {name} is neither a column, a parameter, nor an array of int64 or "
                "float64 in one dimension that start has made"
            )
        found[name] = array
    return found
