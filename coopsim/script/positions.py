"""Compute small integers that a script derives from torch.arange alone: positions of tokens, causal masks of indices.

Data on the phantom are zeros, as kernels do not run. For positions that is misleading: transformers reads them to see
whether several sequences are packed into a row, and makes a mask if so. What follows from arange alone does not depend
on the card's data, so it is computed on the host and written to the device's memory.
"""

import ctypes
import weakref
from typing import Any

import torch

from coopsim.observe.effects import tensors
from coopsim.observe.native import NativeLedger
from coopsim.observe.storages import Ledger, Storage
from coopsim.observe.torch_private import tree_leaves, tree_map
from coopsim.phantom.control import Control

_MOST = 1 << 16  #: elements of the largest tensor that is computed
BEGINS = "aten::arange"


class Positions:
    """Follows a program's ops, and knows the storages whose values are computed, until they are mutated."""

    def __init__(self, ledger: Ledger | NativeLedger) -> None:
        self._ledger = ledger
        self._known: weakref.WeakSet[Storage] = weakref.WeakSet()
        self._control = Control()

    def knows(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor's values are those that a real card would have."""
        storage = self._ledger.of(tensor)
        return storage is not None and storage in self._known

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, newest: int) -> None:
        """Compute an op's results if its operands are known; to be called after each op that may read known values.

        Storages with serials above `newest` are those that the op made.
        """
        begins = func._schema.name == BEGINS
        if not begins and not self._known:
            return
        operands = list(tensors(tree_leaves((args, kwargs))))
        if func._schema.is_mutable:
            for operand in operands:
                self._set(operand, known=False)
        elif (begins or (operands and all(map(self.knows, operands)))) and self._computes(func, out, newest):
            self._compute(func, args, kwargs, list(tensors(out)))

    def _computes(self, func: Any, out: Any, newest: int) -> bool:
        results = list(tensors(out))
        fresh = (self._ledger.of(result) for result in results)
        return (
            bool(results)
            and torch.Tag.nondeterministic_seeded not in func.tags
            and all(storage is not None and storage.serial > newest for storage in fresh)
            and all(not r.is_floating_point() and not r.is_complex() and r.numel() <= _MOST for r in results)
            and all(result.is_contiguous() for result in results)
        )

    def _compute(self, func: Any, args: Any, kwargs: dict[str, Any], results: list[torch.Tensor]) -> None:
        args, kwargs = tree_map(on_host, (args, kwargs))
        values = [v for v in tree_leaves(func(*args, **kwargs)) if isinstance(v, torch.Tensor)]
        if [(v.shape, v.dtype) for v in values] != [(r.shape, r.dtype) for r in results]:
            return
        for value, result in zip(values, results, strict=True):
            value = value.contiguous()
            self._control.write(result.data_ptr(), value.data_ptr(), value.numel() * value.element_size())
            self._set(result, known=True)

    def _set(self, tensor: torch.Tensor, *, known: bool) -> None:
        storage = self._ledger.of(tensor)
        if storage is not None and known != (storage in self._known):
            (self._known.add if known else self._known.discard)(storage)
            self._ledger.set_known(tensor, known=known)


def on_host(value: Any) -> Any:
    """Return a copy of a tensor on the CPU, other values unchanged, and the CPU for a device.

    The phantom's memory is in this process's address space, and is copied directly.
    """
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        return value
    untyped = value.untyped_storage()
    copy = torch.UntypedStorage(untyped.nbytes())  # type: ignore[no-untyped-call]
    ctypes.memmove(copy.data_ptr(), untyped.data_ptr(), untyped.nbytes())
    return torch.empty(0, dtype=value.dtype).set_(copy, value.storage_offset(), value.size(), value.stride())
