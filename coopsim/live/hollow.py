"""Storages without memory. Evicting and restoring do nothing else to PyTorch's objects.

A hollow storage keeps its identity, its size and its tensors' version counters, so the program and autograd's graph go
on referring to it, and views of it can be made. Reading its data raises an error that begins with TRAP.
"""

import torch

from coopsim.live.errors import LiveError
from coopsim.observe import torch_private
from coopsim.observe.torch_private import set_error_of_reading, storage_at

TRAP = "coopsim: evicted"
TEXT = f"{TRAP}: something reads a tensor that was evicted, and did not ask for it"


def check() -> None:
    """Raise LiveError for a torch whose storages cannot be emptied."""
    if not torch_private.has("torch.UntypedStorage._swap_data_ptr_"):
        raise LiveError(
            f"coopsim.live needs torch 2.12 or later, not {torch.__version__}: its storages cannot be emptied"
        )
    if not torch_private.has("torch._C._set_storage_data_ptr_access_error_msg"):
        raise LiveError(f"coopsim.live needs a build of torch with CUDA (also on the CPU), not {torch.__version__}")


def empty(storage: torch.UntypedStorage) -> None:
    """Free a storage's memory, which makes it hollow; its size stays what it is. `fill` gives it memory again."""
    hole = storage_at(0, storage.device, storage.nbytes())
    storage._swap_data_ptr_(hole)  # type: ignore[attr-defined]
    set_error_of_reading(storage._cdata, TEXT)


def fill(storage: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
    """Swap the memory of two storages, so that `storage` gets that of `source`. Nothing is copied."""
    storage._swap_data_ptr_(source)  # type: ignore[attr-defined]
