"""Follow the caching allocator's peaks, of the whole run and of single steps, whatever the script resets.

PyTorch's statistics have peaks since the last reset. Resetting them at each step would change what the script reads, so
both functions that return statistics are replaced by ones that include the peaks from before our resets.
"""

from collections.abc import Callable
from typing import Any

import torch

from coopsim.observe import torch_private
from coopsim.script.phases import Phase

_KINDS = ("allocated", "reserved", "requested")
Peaks = dict[str, int]


class PeakWatch:
    """Follows peaks in bytes. `run`: of the run so far. `first`, `last`: of the first and of the latest other step.

    `phases` has those of evaluation and of generation: how often each began, its peaks, and `added_bytes`, by how much
    its peak of allocated bytes exceeded what was allocated when it began, at most.

    `first` and `last` are None before such a step has ended. Of several devices, each peak is that of the device where
    it is highest.
    """

    def __init__(self) -> None:
        self.run: Peaks = dict.fromkeys(_KINDS, 0)
        self.allocated = 0  #: bytes, when the last step ended
        self.first: Peaks | None = None
        self.last: Peaks | None = None
        self.phases: dict[str, dict[str, int]] = {}
        self._phase: Phase = "training"
        self._before = 0  #: bytes allocated when the phase began
        self._step: Peaks = dict.fromkeys(_KINDS, 0)
        self._hidden: dict[tuple[int, str, str], int] = {}  # peaks that the script would see without our resets
        self._stats: Callable[[int], Any] = torch_private.get("torch._C._cuda_memoryStats")
        self._reset: Callable[[int], None] = torch_private.get("torch._C._cuda_resetPeakMemoryStats")
        for stats, reset in (
            ("_cuda_memoryStats", "_cuda_resetPeakMemoryStats"),
            ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats"),
        ):
            if torch_private.has(f"torch._C.{stats}"):
                torch_private.replace(f"torch._C.{stats}", self._told)
                torch_private.replace(f"torch._C.{reset}", self._asked_to_reset)

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside, in that phase; None: in the one under way."""
        if phase is None or phase == self._phase or not _devices():
            return
        now = 0
        for device in _devices():
            now = max(now, self._take(device))
            self._reset(device)
        self._phase, self._before = phase, now
        if phase != "training":
            empty = {"times": 0, "peak_allocated_bytes": 0, "peak_reserved_bytes": 0, "added_bytes": 0}
            self.phases.setdefault(phase, empty)["times"] += 1

    def step_ended(self) -> None:
        """End a step: note its peaks, and reset PyTorch's, so that what follows counts to the next step."""
        self.allocated = 0
        for device in _devices():
            self.allocated = max(self.allocated, self._take(device))
            self._reset(device)
        if self.first is None:
            self.first = self._step
        else:
            self.last = self._step
        self._step = dict.fromkeys(_KINDS, 0)

    def end(self) -> None:
        """Add what came after the last step to `run`, the peaks of the whole run; to be called at its end."""
        for device in _devices():
            self._take(device)

    def _take(self, device: int) -> int:
        """Note the peaks of a device. Returns what is allocated there now, in bytes."""
        stats = self._stats(device)
        for kind in _KINDS:
            peak = stats[f"{kind}_bytes"]["all"]["peak"]
            self._step[kind] = max(self._step[kind], peak)
            self.run[kind] = max(self.run[kind], peak)
        if self._phase in self.phases:
            of, peak = self.phases[self._phase], stats["allocated_bytes"]["all"]["peak"]
            of["peak_allocated_bytes"] = max(of["peak_allocated_bytes"], peak)
            of["peak_reserved_bytes"] = max(of["peak_reserved_bytes"], stats["reserved_bytes"]["all"]["peak"])
            of["added_bytes"] = max(of["added_bytes"], peak - self._before)
        for family, pool, value in _peaks(stats):
            key = device, family, pool
            self._hidden[key] = max(self._hidden.get(key, 0), value["peak"])
        return int(stats["allocated_bytes"]["all"]["current"])

    def _told(self, device: int) -> Any:
        stats = self._stats(device)
        for family, pool, value in _peaks(stats):
            value["peak"] = max(value["peak"], self._hidden.get((device, family, pool), 0))
        return stats

    def _asked_to_reset(self, device: int) -> None:
        self._take(device)
        self._hidden = {key: peak for key, peak in self._hidden.items() if key[0] != device}
        self._reset(device)


def _devices() -> range:
    """Return the devices that the script can have used; none before CUDA is initialized, as there are no statistics."""
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return range(torch.cuda.device_count() if used else 0)


def _peaks(stats: dict[str, Any]) -> list[tuple[str, str, dict[str, int]]]:
    """Return (family, pool, values) of the statistics that have a peak."""
    return [
        (family, pool, value)
        for family, pools in stats.items()
        if isinstance(pools, dict)
        for pool, value in pools.items()
        if isinstance(value, dict) and "peak" in value
    ]
