"""Checks of PyTorch's own that look at data inside an op, which are zeros on the phantom: they pass.

linalg.eig asks whether all its input is finite, repeat_interleave whether no count is negative. The first truth value
that they read is the answer, and would be false.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.phantom.control import Control
from coopsim.script.positions import on_host

OPS = frozenset({"aten::repeat_interleave", "aten::linalg_eig", "aten::linalg_eigvals", "aten::_linalg_eigvals"})
#: Of complex matrices it asks only whether the library failed, and the answer is to be false.
_EIGENVALUES = "aten::_linalg_eigvals"


class Checks:
    """Lets them pass."""

    def __init__(self) -> None:
        self._control = Control()

    @contextmanager
    def passed(self, func: Any, args: tuple[Any, ...]) -> Iterator[None]:
        """Inside, `func` is called."""
        if func._schema.name not in OPS or (func._schema.name == _EIGENVALUES and args[0].is_complex()):
            yield
            return
        with self._control.answering(1, 1):
            yield


def with_known_size(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an op; those of repeat_interleave with the size of its result, if the counts are known.

    They are where they came from the host, as lengths of sequences do: other data read as zeros.
    """
    if func is not torch.ops.aten.repeat_interleave.Tensor or kwargs.get("output_size") is not None:
        return kwargs
    total = int(on_host(args[0]).sum()) if args[0].is_cuda else 0
    return kwargs | {"output_size": total} if total > 0 else kwargs
