"""What this process's GPU is, and how calls are timed on it: medians between CUDA events, behind a sleeping kernel."""

import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from coopsim.phantom.control import is_phantom
from coopsim.record.observe.timing import Reading

_TIMED, _WARM_UP = 5, 3
_RAMP_S = 1.0  #: a GPU that was idle takes some tenths of a second to raise its clocks


def ramp_up() -> None:
    """Keep the GPU busy for a second, with products of matrices."""
    a = torch.randn(2048, 2048, device="cuda")
    end = time.monotonic() + _RAMP_S
    while time.monotonic() < end:
        for _ in range(50):
            a @ a
        torch.cuda.synchronize()


def microseconds(call: Callable[[], Any]) -> float:
    """Return the median of several calls, after some that are not timed. What the events take is included."""
    for _ in range(_WARM_UP):
        call()
    found: list[float] = []
    for _ in range(_TIMED):
        reading = Reading(call)
        torch.cuda.synchronize()
        found.append(reading.ns / 1e3)
        del reading  # and the result, before the next call
    return statistics.median(found)


def took(call: Callable[[], Any]) -> tuple[Any, int, int]:
    """Return what a call returns, the bytes that it freed again, and those that it kept, of PyTorch's allocator."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = call()
    peak, after = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    return out, peak - max(after, before), after - before


def facts() -> dict[str, Any]:
    """Return the GPU's properties, whether it is the phantom, and versions. Must be called before it is used."""
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU here")
    card: Any = torch.cuda.get_device_properties(0)
    return {
        "title": card.name,
        "memory_bytes": card.total_memory,
        "compute_capability": f"{card.major}.{card.minor}",
        "sms": card.multi_processor_count,
        "threads_per_sm": card.max_threads_per_multi_processor,
        "shared_per_sm_kib": card.shared_memory_per_multiprocessor >> 10,
        "shared_optin_kib": getattr(card, "shared_memory_per_block_optin", 0) >> 10,
        "l2_kib": card.L2_cache_size >> 10,
        "memory_clock_khz": getattr(card, "memory_clock_rate", 0),
        "memory_bus_bits": getattr(card, "memory_bus_width", 0),
        "clock_khz": getattr(card, "clock_rate", 0),
        "phantom": is_phantom(),
        "torch": torch.__version__.partition("+")[0],
        "cuda": torch.version.cuda or "",
        "cudnn": str(torch.backends.cudnn.version() or ""),  # type: ignore[no-untyped-call]
        "python": platform.python_version(),
    }
