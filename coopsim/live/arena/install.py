"""Makes the arena PyTorch's allocator on GPUs, before anything is allocated there."""

import ctypes

import torch

from coopsim.live.arena import library, statistics
from coopsim.live.arena.library import ARENA
from coopsim.observe.extension import NoExtensionError


def install(nbytes: int) -> None:
    """Install an arena of `nbytes` on each device that is used; 0: of nearly all that is free.

    Raises NoExtensionError without CUDA or a compiler, and once CUDA has been used.
    """
    if torch.version.cuda is None:
        raise NoExtensionError("this torch has no CUDA")
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise NoExtensionError("CUDA has been used already")
    lib = library.load()
    lib.coopsim_arena_size(nbytes)
    file = str(ARENA.file())
    allocator = torch.cuda.memory.CUDAPluggableAllocator(file, "coopsim_arena_malloc", "coopsim_arena_free")
    record = ctypes.cast(lib.coopsim_arena_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)  # type: ignore[no-untyped-call]
    torch.cuda.memory.change_current_allocator(allocator)
    statistics.install()
