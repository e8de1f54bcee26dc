"""Follow the caching allocator's peaks, of the whole run and of single steps, whatever the script resets.

PyTorch's statistics have peaks since the last reset. Resetting them at each step would change what the script reads, so
both functions that return statistics are replaced by ones that include the peaks from before our resets.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch

from coopsim.record.observe import torch_private
from coopsim.run.probes.calls import Calls, Phase
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.records_memory import PartPeaks, PhasePeaks

_ORDER = ("load", "first step", "later steps", "evaluation", "generation")
_FEWEST = 4  #: batches that tell whether an evaluation keeps something of each
_MOSTLY = 0.8  #: the part of the batches that must have added memory
_TIMES = 4  #: evaluations that tell whether each leaves something behind
_ALIKE = 0.8  #: the least of what they leave, as a part of the most
_KINDS = ("allocated", "reserved", "requested", "active")
Figures = dict[str, int]


class PeakProbe(Probe):
    """Follows peaks in bytes. `run`: of the run so far. `first`, `last`: of the first and of the latest other step.

    `phases` has the peaks of each part of the run: "load", until a module is first called with gradients; "first step"
    and "later steps"; "evaluation" and "generation".

    `first` and `last` are None before such a step has ended. Of several devices, each peak is that of the device where
    it is highest.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.run: Figures = dict.fromkeys(_KINDS, 0)
        self.allocated = 0  #: bytes, when the last step ended
        self.first: Figures | None = None
        self.last: Figures | None = None
        self.phases: dict[str, PartPeaks | PhasePeaks] = {}
        self._interruptions: dict[str, PhasePeaks] = {}  #: those of evaluation and generation
        self._phase: Phase = "training"
        self._part = "load"  #: the part of the run, unless evaluation or generation interrupt it
        self._goes_on = False  #: whether a second step has begun
        self._before = 0  #: bytes allocated when the phase began
        self._idle = False  #: whether no module was called since the last step ended
        self._with_gradients = False  #: whether the last call of such a phase was made with gradients
        self._starts: dict[str, list[int]] = {}  #: bytes allocated each time that such a phase began
        self._begins: list[int] = []  #: bytes allocated when each call of this phase began
        self._peaks: list[int] = []  #: the peak of each of its calls and of what came before the next
        self.evaluation_peaks: list[int] = []  #: of the evaluation that grew most
        self._step: Figures = dict.fromkeys(_KINDS, 0)
        self._hidden: dict[tuple[int, str, str], int] = {}  # peaks that the script would see without our resets
        self._stats: Callable[[int], Any] = torch_private.get("torch._C._cuda_memoryStats")
        self._reset: Callable[[int], None] = torch_private.get("torch._C._cuda_resetPeakMemoryStats")

    def install(self) -> None:
        """Let what PyTorch tells include the peaks from before our resets, and follow the phases."""
        for stats, reset in (
            ("_cuda_memoryStats", "_cuda_resetPeakMemoryStats"),
            ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats"),
        ):
            if torch_private.has(f"torch._C.{stats}"):
                torch_private.replace(f"torch._C.{stats}", self._told)
                torch_private.replace(f"torch._C.{reset}", self._asked_to_reset)
        self._calls.begins.append(self.call_begins)

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside, in that phase; None: in the one under way."""
        self._goes_on = self._goes_on or (phase == "training" and self.first is not None)
        if phase is None:
            return
        idle, self._idle = self._idle, False
        if not _devices() or (phase == self._phase == "training" and self._part != "load"):
            return
        now = 0
        if self._begins:
            self._peaks.append(self._highest())
        if idle and phase != self._phase == "training":  # what came since the step, such as its input, belongs to it
            self._enter(phase, min(self.allocated, self._highest("current")))
        for device in _devices():
            now = max(now, self._take(device))
            self._reset(device)
        if phase == self._phase == "evaluation":
            self._begins.append(now)
        if phase == "training" and self._part == "load":
            self._part = "first step"
        if phase != self._phase:
            self._enter(phase, now)
            self._begins = [now] if phase == "evaluation" else []
        if phase != "training":
            self._with_gradients = torch.is_grad_enabled()
            self._interruptions[phase].with_gradients += self._with_gradients

    def step_ended(self, _steps: int) -> None:
        """End a step: note its peaks, and reset PyTorch's, so that what follows counts to the next step."""
        self.allocated = 0
        for device in _devices():
            self.allocated = max(self.allocated, self._take(device))
            self._reset(device)
        if self._part == "load" and self._part in self.phases:  # no module was called
            self.phases["first step"] = self.phases.pop("load")
        self._part, self._idle = "later steps", True
        if self.first is None:
            self.first = self._step
        else:
            self.last = self._step
        self._step = dict.fromkeys(_KINDS, 0)

    def report(self, found: ProcessReport) -> None:
        """Report all peaks, those of what came after the last step included."""
        if self._begins:
            self._peaks.append(self._highest())
        for device in _devices():
            self._take(device)
        self._phase_ends()
        if not self._goes_on and self.last is None:
            self.phases.pop("later steps", None)
        for of in self._interruptions.values() if not self._calls.by_mode else ():
            of.with_gradients = 0
        for name, starts in self._starts.items():
            more = [later - earlier for earlier, later in itertools.pairwise(starts[1:])]
            if len(starts) >= _TIMES and min(more) >= max(_ALIKE * max(more), 1):
                self._interruptions[name].left_bytes = min(more)
        self.phases = {name: self.phases[name] for name in _ORDER if name in self.phases}
        found.phases, found.evaluation_peaks = self.phases, tuple(self.evaluation_peaks)
        found.peak_allocated_bytes = self.run["allocated"]
        found.peak_reserved_bytes = self.run["reserved"]
        found.peak_requested_bytes = self.run["requested"]
        found.peak_active_bytes = self.run["active"]
        if self.first is not None:
            found.first_step_peak_reserved_bytes = self.first["reserved"]
        if self.last is not None:
            found.steady_peak_reserved_bytes = self.last["reserved"]
            found.steady_peak_allocated_bytes = self.last["allocated"]

    @property
    def batch(self) -> tuple[Phase, int, bool] | None:
        """The phase that interrupts training and is under way, the number of calls in it, and whether with gradients.

        None if none is.
        """
        if self._phase == "training" or not self._begins:
            return None
        return self._phase, len(self._begins), self._with_gradients and self._calls.by_mode

    def _enter(self, phase: Phase, before: int) -> None:
        self._phase_ends()
        self._phase, self._before = phase, before
        if phase != "training":
            self.phases[phase] = of = self._interruptions.setdefault(phase, PhasePeaks())
            of.times += 1
            self._starts.setdefault(phase, []).append(before)

    def _phase_ends(self) -> None:
        """Note whether the evaluation that ends has kept something of each batch."""
        begins, self._begins, peaks, self._peaks = self._begins, [], self._peaks, []
        of = self._interruptions.get(self._phase)
        if of is None:
            return
        of.batches = max(of.batches, len(begins))
        more = sum(later > earlier for earlier, later in itertools.pairwise(begins[1:]))
        if len(begins) < _FEWEST or more < _MOSTLY * (len(begins) - 2):
            return
        grows = (begins[-1] - begins[1]) // (len(begins) - 2)
        if grows > of.grows_bytes:
            of.grows_bytes, self.evaluation_peaks = grows, peaks

    def _highest(self, which: str = "peak") -> int:
        return max(int(self._stats(device)["allocated_bytes"]["all"][which]) for device in _devices())

    def _take(self, device: int) -> int:
        """Note the peaks of a device. Returns what is allocated there now, in bytes."""
        stats = self._stats(device)
        for kind in _KINDS:
            peak = stats[f"{kind}_bytes"]["all"]["peak"]
            self._step[kind] = max(self._step[kind], peak)
            self.run[kind] = max(self.run[kind], peak)
        peak = stats["allocated_bytes"]["all"]["peak"]
        interrupted = self._phase != "training"
        of = self.phases.setdefault(self._phase if interrupted else self._part, PartPeaks())
        of.peak_allocated_bytes = max(of.peak_allocated_bytes, peak)
        of.peak_reserved_bytes = max(of.peak_reserved_bytes, stats["reserved_bytes"]["all"]["peak"])
        if isinstance(of, PhasePeaks):
            of.added_bytes = max(of.added_bytes, peak - self._before)
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
