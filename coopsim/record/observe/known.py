"""Integers and truth values that follow from what the host has given: constants, positions, labels, attention masks.

Data on the phantom are zeros, as kernels do not run. For such values that is misleading: transformers looks at
positions to tell whether several sequences share a row, and makes a mask if so; generation ends by a constant. What
follows from what the host has given is known without the card, so it is computed on the host and written to the
device's memory.
"""

import ctypes
import weakref
from typing import Any

import torch

from coopsim.phantom.control import Control
from coopsim.record.observe import effects
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.native import NativeLedger, memory
from coopsim.record.observe.storages import Ledger, Storage, address
from coopsim.record.observe.torch_private import tree_leaves, tree_map

_MOST = 1 << 16  #: elements
_MOST_BYTES = 8 * _MOST
#: Make values of nothing but what the host says.
CONSTANTS = frozenset(
    f"aten::{name}"
    for name in (
        *("arange", "full", "zeros", "ones", "scalar_tensor", "eye", "tril_indices", "triu_indices"),
        *("full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones"),
    )
)
_COPIES = ("aten::_to_copy", "aten::copy_")
#: Overwrite all of their first operand, with nothing but what the host says, or with the second operand.
SET = frozenset({"aten::zero_", "aten::fill_"})
_OVERWRITE = SET | {"aten::copy_"}
LIFT = "aten::lift_fresh"  #: the end of torch.tensor, of which nothing else is seen
#: With one operand that is all true, or all zero, the other does not matter.
_ABSORBING = {"bitwise_or": True, "logical_or": True, "bitwise_and": False, "logical_and": False, "mul": False}

#: Of a storage: what its values rest on beside what is certain. MASKED: on what unknown masks are said to keep. FINITE:
#: on data being finite.
ASSUMED, FROM_HOST, MASKED, FINITE = 1, 2, 4, 8


class Known:
    """Follows a program's ops, and knows which storages hold the values that a real card would have computed.

    They are small storages of integers or truth values. What is mutated by something unknown is forgotten. `by_host`:
    whether values that the host gives are known; else only those that `write` is told.
    """

    def __init__(self, ledger: Ledger | NativeLedger, *, by_host: bool = True) -> None:
        self._ledger, self._by_host = ledger, by_host
        self._rests_on: weakref.WeakKeyDictionary[Storage, int] = weakref.WeakKeyDictionary()
        self._control = Control()

    def has(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor's values are known: certain, or assumed (`rests_on`)."""
        storage = self._ledger.of(tensor)
        return storage is not None and storage in self._rests_on

    def rests_on(self, tensor: torch.Tensor) -> int:
        """Return what the values of a known tensor rest on: the sum of what applies of four constants.

        ASSUMED: what is assumed of masks and routers. FROM_HOST: values copied from the host. MASKED: what unknown
        masks are said to keep. FINITE: that unknown data are finite. 0 if they follow from constants alone, and for a
        tensor that is not known.
        """
        storage = self._ledger.of(tensor)
        return self._rests_on.get(storage, 0) if storage is not None else 0

    def write(self, tensor: torch.Tensor, values: torch.Tensor, rests_on: int) -> None:
        """Write values to a tensor in the device's memory, and note that they are known, and what they rest on.

        Does nothing for more than 65,536 values, or if the tensor is not the whole of its storage.
        """
        if values.numel() <= _MOST and _is_whole(tensor):
            laid_out = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            laid_out.copy_(values.reshape(tensor.shape))
            self._control.write(memory(tensor)[0], laid_out.data_ptr(), values.numel() * laid_out.element_size())
            self._set(tensor, rests_on)

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, newest: int) -> None:
        """Follow an op that has run and returned `out`: compute its results on the host, if its operands are known.

        They are written to the device's memory. `newest`: the ledger's newest serial before the op.
        """
        name = func._schema.name
        begins = self._by_host and (name in CONSTANTS or name in SET)
        if self._by_host and (name in _COPIES or name == LIFT) and self._came_from_host(name, args, out):
            return
        if not begins and not self._rests_on:
            return
        operands = list(tensors(tree_leaves((args, kwargs))))
        if name in _OVERWRITE and operands and operands[0] is args[0] and _is_whole(args[0]):
            del operands[0]  # what it held does not matter
        known = [operand for operand in operands if self.has(operand)]
        if not begins and not known:
            return
        rests_on = 0
        for operand in known:
            rests_on |= self.rests_on(operand)
        if func._schema.is_mutable:
            settled = len(known) == len(operands) and (begins or bool(known))
            self._changed(func, args, kwargs, operands, rests_on if settled else None)
        elif not self._computes(func, out, newest):
            return
        elif begins or len(known) == len(operands):
            self._compute(func, args, kwargs, list(tensors(out)), rests_on)
        else:
            self._absorb(name, operands, list(tensors(out)))

    def _changed(
        self, func: Any, args: Any, kwargs: dict[str, Any], operands: list[torch.Tensor], rests_on: int | None
    ) -> None:
        """Follow an op in place. `rests_on` is what all its operands rest on; None: some are not known."""
        named = effects.arguments(func, args, kwargs)
        changed = [t for name in effects.mutated(func, named) for t in tensors(named[name])]
        in_place = len(changed) == 1 and changed[0] is args[0]
        if in_place and rests_on is not None and self._is_small(args[0]):
            self._mutate(func, args, kwargs, args[0], rests_on)
        elif not in_place or not self._absorb(func._schema.name, operands, changed):
            for tensor in changed:
                self._set(tensor, None)

    def _came_from_host(self, name: str, args: Any, out: Any) -> bool:
        """Return whether an op has copied small integers from the host to a storage of the device, and note it."""
        source = args[1] if name == "aten::copy_" else args[0]
        if not isinstance(out, torch.Tensor) or not out.is_cuda or not isinstance(source, torch.Tensor):
            return False
        if (source.is_cuda and name != LIFT) or out.is_floating_point() or out.is_complex() or out.numel() > _MOST:
            return False
        if not _is_whole(out):
            return False
        self._set(out, FROM_HOST)
        return True

    def _computes(self, func: Any, out: Any, newest: int) -> bool:
        results = [result for result in tensors(out) if result.numel()]
        fresh = (self._ledger.of(result) for result in results)
        return (
            bool(results)
            and torch.Tag.nondeterministic_seeded not in func.tags
            and all(storage is not None and storage.serial > newest for storage in fresh)
            and all(not r.is_floating_point() and not r.is_complex() and r.numel() <= _MOST for r in results)
            and all(_is_whole(result) for result in results)
        )

    def _compute(
        self, func: Any, args: Any, kwargs: dict[str, Any], results: list[torch.Tensor], rests_on: int
    ) -> None:
        try:
            args, kwargs = tree_map(on_host, (args, kwargs))
            made = func(*args, **kwargs)
        except RuntimeError:  # the CPU has none of it, as histc of integers
            return
        values = [v for v in tree_leaves(made) if isinstance(v, torch.Tensor)]
        if len(values) != len(results) or any(
            r.numel() and (v.shape, v.dtype) != (r.shape, r.dtype) for v, r in zip(values, results, strict=True)
        ):
            return
        for value, result in zip(values, results, strict=True):
            if result.numel():
                blank = effects.is_blank(func)  # it reads as zeros until it is written
                self.write(result, value.zero_() if blank else value, rests_on)

    def _is_small(self, tensor: torch.Tensor) -> bool:
        return not tensor.is_floating_point() and not tensor.is_complex() and memory(tensor)[1] <= _MOST_BYTES

    def _mutate(self, func: Any, args: Any, kwargs: dict[str, Any], changed: torch.Tensor, rests_on: int) -> None:
        """Do on the host what an op in place does, all of whose operands are known."""
        try:
            args, kwargs = tree_map(on_host, (args, kwargs))
            func(*args, **kwargs)
        except RuntimeError:  # the CPU has none of it
            self._set(changed, None)
            return
        values = args[0].untyped_storage()
        self._control.write(memory(changed)[0], values.data_ptr(), values.nbytes())
        self._set(changed, rests_on)

    def _absorb(self, name: str, operands: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
        """Return whether the result is known although an operand is not, as it does not matter; write it then."""
        value = _ABSORBING.get(name.removeprefix("aten::").removesuffix("_"))
        if value is None or len(operands) != 2 or len(results) != 1:
            return False
        result = results[0]
        decides = next((o for o in operands if self.has(o) and self._is_all(o, value=value)), None)
        if (
            decides is None
            or not _is_whole(result)
            or result.is_floating_point()
            or (value and result.dtype is not torch.bool)
        ):
            return False
        self.write(result, torch.full(result.shape, value), self.rests_on(decides))
        return True

    def _is_all(self, tensor: torch.Tensor, *, value: bool) -> bool:
        if tensor.is_floating_point() or (value and tensor.dtype is not torch.bool):
            return False
        there = on_host(tensor)
        return bool(there.all() if value else not there.any())

    def _set(self, tensor: torch.Tensor, rests_on: int | None) -> None:
        """Note that a tensor's storage is known; with None, that it no longer is."""
        storage = self._ledger.of(tensor)
        if storage is None:
            return
        if rests_on is not None:
            self._rests_on[storage] = rests_on
            self._ledger.set_known(tensor, known=True)
        elif self._rests_on.pop(storage, None) is not None:
            self._ledger.set_known(tensor, known=False)


def _is_whole(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is all of its storage, each byte once."""
    return tensor.numel() * tensor.element_size() == memory(tensor)[1]


def on_host(value: Any) -> Any:
    """Return a copy of a tensor of the device in the host's memory, with its strides; anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        return value
    untyped = value.untyped_storage()
    copy = torch.UntypedStorage(untyped.nbytes())  # type: ignore[no-untyped-call]
    there = address(untyped) or untyped.data_ptr()  # live brings back what it has evicted, and keeps it in place then
    ctypes.memmove(copy.data_ptr(), there, untyped.nbytes())
    return torch.empty(0, dtype=value.dtype).set_(copy, value.storage_offset(), value.size(), value.stride())
