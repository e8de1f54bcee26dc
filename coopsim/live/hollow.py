"""Storages without memory: all that evicting and restoring do to PyTorch.

A hollow storage keeps its identity, its size and its tensors' version counters, so the program and autograd's graph go
on referring to it, and views of it can be made. Reading its data raises an error that begins with TRAP.
"""

import torch

from coopsim.live.errors import LiveError

TRAP = "coopsim: evicted"
TEXT = f"{TRAP}: something reads a tensor that was evicted, and did not ask for it"


def check() -> None:
    """LiveError if this torch cannot do it."""
    if not hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        raise LiveError(
            f"coopsim.live needs torch 2.12 or later, not {torch.__version__}: its storages cannot be emptied"
        )


def empty(storage: torch.UntypedStorage) -> None:
    """Give back a storage's memory."""
    hole = torch._C._construct_storage_from_data_pointer(0, storage.device, storage.nbytes())
    storage._swap_data_ptr_(hole)  # type: ignore[attr-defined]
    torch._C._set_storage_data_ptr_access_error_msg(storage._cdata, TEXT)


def fill(storage: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
    """Let a storage take over the memory of another, in place of its own; nothing is copied."""
    storage._swap_data_ptr_(source)  # type: ignore[attr-defined]
