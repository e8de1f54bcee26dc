"""Measure what calls cost on a real GPU: the time between two CUDA events around each.

A sleeping kernel runs before each call, so that the host has launched its kernels and the second event before the GPU
reaches the first: the time is that of the kernels, without launches. Where the host was later all the same, as when a
call takes memory from the driver, the reading says so. What two events take with nothing between them is subtracted.
Events and the sleeping kernel take no memory of PyTorch's allocator.
"""

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from coopsim.record.observe.torch_private import current_device, sleep_on_device

_CYCLES = 400_000  # some 0.2 ms: longer than it takes the host to launch an op
_EMPTY_PAIRS = 50


class Reading:
    """A call between two CUDA events, and its result, `out`. ahead: the host was done before the GPU had begun."""

    def __init__(self, call: Callable[[], Any]) -> None:
        """Call it, behind a sleeping kernel on the current stream. Raises what it raises."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        sleep_on_device(_CYCLES)
        start.record()
        self.out = call()
        end.record()
        self.ahead = not start.query()  # type: ignore[no-untyped-call]
        self._start, self._end = start, end

    @property
    def ns(self) -> int:
        """The time between the events, in ns; the GPU must have passed them."""
        return round(1e6 * float(self._start.elapsed_time(self._end)))


def empty_ns() -> int:
    """Return the time between two events with nothing between them, on the current GPU: the median of 50 pairs, in ns.

    It is measured once per process and GPU.
    """
    return _empty_ns(current_device())


@cache
def _empty_ns(_device: int) -> int:
    pairs = [Reading(lambda: None) for _ in range(_EMPTY_PAIRS)]
    torch.cuda.synchronize()
    return round(statistics.median(pair.ns for pair in pairs))


class Timer:
    """Times ops as they are dispatched. A pass is one repetition of the steps, and ends with `next_pass`."""

    def __init__(self) -> None:
        self._pass: list[tuple[str, Reading]] = []
        self._passes: list[list[tuple[str, int]]] = []
        self._empty_ns = empty_ns()

    @property
    def calls(self) -> int:
        """The number of ops timed in this pass so far; so the index that the next one gets."""
        return len(self._pass)

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Call an op between two CUDA events, and return its result. Its time is read by `next_pass`."""
        reading = Reading(call)
        out, reading.out = reading.out, None
        self._pass.append((name, reading))
        return out

    def next_pass(self) -> None:
        """End a pass: wait for the GPU, and read the times of its ops; the next op begins another pass."""
        torch.cuda.synchronize()
        self._passes.append([(name, reading.ns) for name, reading in self._pass])
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


class StepTimes:
    """Times of the ops of one step of a program that goes on, by their numbers in the step: one reading of each."""

    def __init__(self) -> None:
        self._empty_ns = empty_ns()
        self._readings: dict[int, Reading] = {}
        self._stream: Any = None  # of all ops so far; False: there are several

    def run(self, number: int, call: Callable[[], Any]) -> Any:
        """Call op `number`, and return its result. From the first op on another stream on, none is timed any more.

        A stream that sleeps would keep the others waiting, and the blocks that they share.
        """
        stream = torch.cuda.current_stream()
        if self._stream is None:
            self._stream = stream
        if stream != self._stream:
            self._stream = False
            return call()
        reading = Reading(call)
        out, reading.out = reading.out, None
        if reading.ahead:
            self._readings[number] = reading
        return out

    def read(self) -> dict[int, int]:
        """Wait for the GPU, and return the times in ns by number of the op: of those that the host launched in time."""
        torch.cuda.synchronize()
        return {number: max(reading.ns - self._empty_ns, 0) for number, reading in self._readings.items()}
