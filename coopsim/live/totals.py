"""The figures of a session: what all its steps did together."""

from dataclasses import dataclass

from coopsim.live.on_demand import OnDemand
from coopsim.live.residency import Residency
from coopsim.live.state import State


@dataclass
class Totals:
    """Sums and peaks over the steps so far. Peaks are in bytes, of steps that had a budget.

    steps: those that ended without an error. planned_steps: of these, those by a plan to their end. deviations: steps
    that left their plans, except for want of memory. deviated: why the latest step that left its plan did so.
    device_calls: how often the latest step with a plan took memory from the device or gave it back.
    """

    steps: int = 0
    planned_steps: int = 0
    evictions: int = 0
    recomputes: int = 0
    offloads: int = 0
    offloaded_bytes: int = 0
    deviations: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    deviated: str = ""
    device_calls: int = 0

    def step_ended(self, state: State) -> None:
        """Count a step that ended without an error, in this state."""
        self.steps += 1
        self.planned_steps += state.planned
        if isinstance(state, OnDemand) and state.left is not None:
            self.deviated = state.left.why
            self.deviations += not state.left.ran_out

    def call_device(self, times: int) -> None:
        """Take note of how often a step with a plan took memory from the device or gave it back."""
        self.device_calls = times

    def add(self, residency: Residency) -> None:
        """Count what was evicted, run again and offloaded in a step that is over."""
        self.evictions += residency.evictions
        self.recomputes += residency.recomputes
        self.offloads += residency.copies.offloads
        self.offloaded_bytes += residency.copies.offloaded_bytes

    def add_peaks(self, allocated: int, reserved: int) -> None:
        """Take the peaks, in bytes, of a step that had a budget into account."""
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, allocated)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, reserved)
