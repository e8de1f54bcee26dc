"""Make PyTorch's own checks of data within ops pass on the phantom GPU, where the data are zeros.

linalg.eig checks that its input is finite, repeat_interleave that no count is negative. Both read the result of the
check from the device as a bool, which would be false.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.phantom.control import Control
from coopsim.script.positions import on_host

OPS = frozenset({"aten::repeat_interleave", "aten::linalg_eig", "aten::linalg_eigvals", "aten::_linalg_eigvals"})
#: For complex matrices it only checks whether the library failed, so that false is the right answer.
_EIGENVALUES = "aten::_linalg_eigvals"


class Checks:
    """Makes the checks of the ops in OPS pass."""

    def __init__(self) -> None:
        self._control = Control()

    @contextmanager
    def passed(self, func: Any, args: tuple[Any, ...]) -> Iterator[None]:
        """Make the checks of `func` pass if it is called within the context; do nothing for an op without checks."""
        if func._schema.name not in OPS or (func._schema.name == _EIGENVALUES and args[0].is_complex()):
            yield
            return
        with self._control.answering(1, 1):
            yield


def with_known_size(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of an op; for repeat_interleave with output_size, if the counts are known.

    They are if they came from the host, as lengths of sequences do. Other data are zeros, and give no output_size.
    """
    if func is not torch.ops.aten.repeat_interleave.Tensor or kwargs.get("output_size") is not None:
        return kwargs
    total = int(on_host(args[0]).sum()) if args[0].is_cuda else 0
    return kwargs | {"output_size": total} if total > 0 else kwargs
