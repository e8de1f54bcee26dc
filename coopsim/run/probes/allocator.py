"""The card and PyTorch's allocator: how a script configures it, and how much of the card was taken."""

import re

import torch

from coopsim.base import alloc_conf
from coopsim.phantom.control import Control
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport

_DRIVERS = "cudaMallocAsync"
_ASKS = f"{alloc_conf.VARIABLE} asks for backend:{_DRIVERS}"
_FOREIGN = f"{_ASKS}, the driver's allocator; only PyTorch's own can be looked at: leave it out"
_fractions: dict[int, float] = {}


def unmet() -> str:
    """Return why the script's allocator cannot be observed (it is cudaMallocAsync), as a message; "" if it can."""
    return _FOREIGN if torch.cuda.get_allocator_backend() == _DRIVERS else ""


class AllocatorProbe(Probe):
    """Reports what was taken of the device, of which `device` tells, and what the allocator had to try again."""

    def __init__(self, device: Control) -> None:
        self._device = device

    def install(self) -> None:
        """Remember for `fraction` what torch.cuda.set_per_process_memory_fraction sets.

        PyTorch itself returns it rounded, and not before 2.9.
        """
        set_fraction = torch._C._cuda_setMemoryFraction

        def remembered(fraction: float, device: int) -> None:
            set_fraction(fraction, device)
            _fractions[device] = fraction

        torch._C._cuda_setMemoryFraction = remembered

    def report(self, found: ProcessReport) -> None:
        """Report the figures; a rank sees all cards of its machine, but uses one of them only."""
        devices = [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]
        stats = max(devices, key=lambda of: of.get("reserved_bytes.all.peak", 0))
        found.memory_fraction = fraction(devices.index(stats))
        found.retries = stats.get("num_alloc_retries", 0)
        found.ooms = stats.get("num_ooms", 0)
        found.peak_device_bytes = self._device.peak_bytes
        found.context_bytes = self._device.context_bytes
        found.nccl_bytes = self._device.nccl_bytes
        found.managed_bytes = self._device.managed_bytes
        found.split_limit_mib = split_limit(alloc_conf.here())


def fraction(device: int) -> float | None:
    """Return the fraction (0 to 1) of a device's memory that PyTorch's allocator may use; None if it may use all of it.

    It is what the script has set, or else what PYTORCH_CUDA_ALLOC_CONF says.
    """
    found = _fractions.get(device)
    told = getattr(torch._C, "_cuda_getMemoryFraction", None)
    if found is None and told is not None and torch.cuda.get_allocator_backend() == "native":
        found = float(told(device))  # one may come from PYTORCH_CUDA_ALLOC_CONF
    return None if found is None or found >= 1 else found


def split_limit(conf: str) -> int:
    """Return max_split_size_mb of the allocator's settings, if they ask for expandable segments, too; else 0.

    >>> split_limit("expandable_segments:True, max_split_size_mb:128"), split_limit("max_split_size_mb:128")
    (128, 0)
    """
    said = dict(re.findall(r"(\w+)\s*:\s*(\w+)", conf))
    return int(said.get("max_split_size_mb", 0)) if said.get("expandable_segments") == "True" else 0
