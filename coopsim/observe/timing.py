"""Measure what ops cost on a real GPU: the time between two CUDA events around each.

A sleeping kernel runs before each op, so that the host has launched the op and the second event before the GPU reaches
the first: the time is that of the op's own kernels, without launches. Costs are medians over several passes, minus the
time between two events with nothing between them.
"""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from coopsim.observe.torch_private import sleep_on_device

_CYCLES = 400_000  # some 0.2 ms: longer than it takes the host to launch an op
_EMPTY_PAIRS = 50


class Timer:
    """Times ops as they are dispatched. A pass is one repetition of the steps, and ends with `next_pass`."""

    def __init__(self) -> None:
        self._pass: list[tuple[str, Any, Any]] = []
        self._passes: list[list[tuple[str, int]]] = []
        self._empty_ns = self._measure_nothing()

    @property
    def calls(self) -> int:
        """The number of ops timed in this pass so far; so the index that the next one gets."""
        return len(self._pass)

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Call an op between two CUDA events, and return its result. Its time is read by `next_pass`."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        sleep_on_device(_CYCLES)
        start.record()
        out = call()
        end.record()
        self._pass.append((name, start, end))
        return out

    def next_pass(self) -> None:
        """End a pass: wait for the GPU, and read the times of its ops; the next op begins another pass."""
        torch.cuda.synchronize()
        self._passes.append([(name, round(1e6 * start.elapsed_time(end))) for name, start, end in self._pass])
        self._pass = []

    def medians(self) -> tuple[list[int], int]:
        """Return the median cost of each call of the first pass, in ns and in order, and over how many passes it is.

        Passes that made other calls than the first one are left out. At least one pass must have ended.
        """
        names = [name for name, _ in self._passes[0]]
        same = [times for times in self._passes if [name for name, _ in times] == names]
        calls = zip(*([ns for _, ns in times] for times in same), strict=True)
        return [max(round(statistics.median(samples)) - self._empty_ns, 0) for samples in calls], len(same)

    def source(self, passes: int) -> str:
        """Return one line for the trace's header: the GPU, and how the costs were measured, as medians of `passes`."""
        facts = torch.cuda.get_device_properties(0)
        return (
            f"measured on an {facts.name}: CUDA events around each op after a sleep, median of {passes} passes, less "
            f"{self._empty_ns} ns for the events"
        )

    def _measure_nothing(self) -> int:
        for _ in range(_EMPTY_PAIRS):
            self.run("", lambda: None)
        self.next_pass()
        return round(statistics.median(ns for _, ns in self._passes.pop()))
