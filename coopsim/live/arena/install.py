"""Makes the arena PyTorch's allocator on GPUs, before anything is allocated there.

From then on its counters answer what programs ask of their allocator: PyTorch keeps no statistics of a pluggable one.
"""

import ctypes
from typing import Any

import torch

from coopsim.live.arena import library
from coopsim.live.arena.library import ARENA, Arena
from coopsim.record.observe import torch_private
from coopsim.record.observe.extension import NoExtensionError
from coopsim.record.observe.torch_private import device_index

_BYTES = ("allocated", "reserved", "active", "requested", "inactive_split")
_COUNTS = ("allocation", "segment", "active", "inactive_split")
_POOLS = ("all", "small_pool", "large_pool")


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
    _answer()


def _answer() -> None:
    """Let torch.cuda.memory_stats and all that derives from it, and mem_get_info, answer from the arena's counters.

    Resets of peaks reset the arena's; limits on the memory's fraction do nothing.
    """
    answers = {
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": lambda device: Arena(device).reset_peaks(),
        "_cuda_resetAccumulatedMemoryStats": lambda _device: None,
        "_cuda_setMemoryFraction": lambda _fraction, _device: None,
        "_cuda_getMemoryFraction": lambda _device: 1.0,
        "_accelerator_getDeviceStats": stats,
        "_accelerator_resetPeakStats": lambda device: Arena(device).reset_peaks(),
        "_accelerator_resetAccumulatedStats": lambda _device: None,
    }
    for name, answer in answers.items():
        if torch_private.has(f"torch._C.{name}"):
            torch_private.replace(f"torch._C.{name}", answer)
    torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = mem_get_info


def stats(device: int) -> dict[str, Any]:
    """The statistics of a device's arena, nested as those of torch._C._cuda_memoryStats.

    Nothing is cached, so active equals allocated.
    """
    s = Arena(device).stats
    found: dict[str, Any] = {
        "num_alloc_retries": 0,
        "num_ooms": s.ooms,
        "num_sync_all_streams": 0,
        "num_device_alloc": int(s.reserved > 0) + s.taken,
        "num_device_free": s.given_back,
        "max_split_size": -1,
    }
    nbytes = {
        "allocated": (s.allocated, s.allocated_peak),
        "active": (s.allocated, s.allocated_peak),
        "requested": (s.requested, s.requested_peak),
        "reserved": (s.reserved, s.reserved_peak),
    }
    counts = {"allocation": s.blocks, "active": s.blocks, "segment": int(s.reserved > 0)}
    for name in _BYTES:
        found[f"{name}_bytes"] = _family(*nbytes.get(name, (0, 0)))
    for name in _COUNTS:
        found[name] = _family(counts.get(name, 0), counts.get(name, 0))
    for name in ("oversize_allocations", "oversize_segments"):
        found[name] = _of(0, 0)
    return found


def _family(current: int, peak: int) -> dict[str, dict[str, int]]:
    """A statistic by pool. All of it is in the large pool."""
    return {pool: _of(current, peak) if pool != "small_pool" else _of(0, 0) for pool in _POOLS}


def _of(current: int, peak: int) -> dict[str, int]:
    return {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes and size of a device's arena, in bytes, in place of the card's. device: as torch.cuda takes it."""
    index = device_index(device, optional=True)
    s = Arena(index).stats
    return s.size - (s.allocated - s.outside), s.size
