"""Storages without memory. Evicting and restoring do nothing else to PyTorch's objects.

A storage without memory keeps its identity, its size and its tensors' version counters, so the program and autograd's
graph go on referring to it, and views of it can be made. Reading its data raises the error of errors.py.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch

from coopsim.live import observer
from coopsim.live.errors import TRAP_TEXT, LiveError
from coopsim.record.observe import torch_private
from coopsim.record.observe.extension import NoExtensionError
from coopsim.record.observe.torch_private import set_error_of_reading, storage_at


def check() -> None:
    """Raise LiveError for a torch whose storages cannot be emptied."""
    try:
        _swap()
        _set_error()
    except (NoExtensionError, OSError, AttributeError) as why:
        raise LiveError(
            f"coopsim.live needs a C++ compiler, or torch 2.12 or later built with CUDA, not {torch.__version__}: {why}"
        ) from None


def empty(storage: torch.UntypedStorage) -> None:
    """Free a storage's memory, which makes it empty; its size stays what it is. `fill` gives it memory again."""
    hole = storage_at(0, storage.device, storage.nbytes())
    _swap()(storage, hole)
    _set_error()(storage._cdata, TRAP_TEXT)


def fill(storage: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
    """Swap the memory of two storages, so that `storage` gets that of `source`. Nothing is copied."""
    _swap()(storage, source)


@cache
def _swap() -> Callable[[torch.UntypedStorage, torch.UntypedStorage], object]:
    """What swaps the memory of two storages: PyTorch's own, or the observer's before 2.12.

    Raises what `observer.load` raises.
    """
    if torch_private.has("torch.UntypedStorage._swap_data_ptr_"):
        return torch.UntypedStorage._swap_data_ptr_  # type: ignore[attr-defined, no-any-return]
    own = observer.load().coopsim_swap
    return lambda a, b: own(ctypes.c_void_p(a._cdata), ctypes.c_void_p(b._cdata))


@cache
def _set_error() -> Callable[[int, str], None]:
    """What sets the error of reading a storage: PyTorch's own, or the observer's in a build without CUDA.

    Raises what `observer.load` raises.
    """
    if torch_private.has("torch._C._set_storage_data_ptr_access_error_msg"):
        return set_error_of_reading
    own = observer.load().coopsim_trap
    return lambda address, text: own(ctypes.c_void_p(address), text.encode())
