"""Arrays that refuse an index below zero, which NumPy counts from the end and compiled kernels do not."""

from dataclasses import fields
from typing import Any

import numpy as np


class Strict(np.ndarray):
    """The elements of another array."""

    def __getitem__(self, index: Any) -> Any:
        _refuse(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _refuse(index)
        super().__setitem__(index, value)


def _refuse(index: Any) -> None:
    for i in index if isinstance(index, tuple) else (index,):
        if isinstance(i, int | np.integer) and i < 0:
            raise IndexError(f"a kernel's index is {i}")


def make_strict(bundle: Any) -> None:
    """From now on the arrays of all new bundles (kernel.reference.Bundle) are strict. For kernels that are Python."""
    before = bundle.__post_init__

    def post_init(self: Any) -> None:
        before(self)
        for field in fields(self):
            it = getattr(self, field.name)
            if isinstance(it, np.ndarray):
                object.__setattr__(self, field.name, it.view(Strict))

    bundle.__post_init__ = post_init
