"""What this process's GPU is, as the card says."""

import platform
from typing import Any

import torch

from coopsim.phantom import PhantomError
from coopsim.phantom.control import Control


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
        "phantom": _is_phantom(),
        "torch": torch.__version__.partition("+")[0],
        "cuda": torch.version.cuda or "",
        "cudnn": str(torch.backends.cudnn.version() or ""),  # type: ignore[no-untyped-call]
        "python": platform.python_version(),
    }


def _is_phantom() -> bool:
    try:
        Control()
    except PhantomError:
        return False
    return True
