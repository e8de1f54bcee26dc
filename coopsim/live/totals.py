"""The figures of a session: what all its steps did together."""

from dataclasses import dataclass

from coopsim.live.step import Step


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

    def add(self, step: Step) -> None:
        """Count what was evicted, recomputed and offloaded in a step that is over."""
        self.evictions += step.values.evictions
        self.recomputes += step.values.recomputes
        self.offloads += step.values.offloaded.copies.offloads
        self.offloaded_bytes += step.values.offloaded.copies.offloaded_bytes

    def add_peaks(self, allocated: int, reserved: int) -> None:
        """Take the peaks, in bytes, of a step that had a budget into account."""
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, allocated)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, reserved)
