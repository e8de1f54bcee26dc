"""What the caching allocator asked of the device during a replay: cudaMalloc and cudaFree, by row of the schedule.

A schedule records what was asked of the allocator and what it answered, not what it did to answer. The simulated
allocator does the same again here, and its own statistics say how often it called the device.
"""

from dataclasses import dataclass

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.simulate.allocators.caching.device import FIRST_FIT
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_schedule
from coopsim.trace.schedule import Schedule

_COUNTERS = ("num_device_alloc", "num_device_free", "num_alloc_retries", "num_ooms")


@dataclass(frozen=True)
class AllocatorCalls:
    """The calls of the device that one row of a schedule led to.

    allocs: cudaMalloc, or mappings of expandable segments; failures: such calls for which there was no memory; frees:
    cudaFree, or unmappings; segments: (address, bytes) of all memory that the allocator holds afterwards, in order.
    """

    allocs: int
    failures: int
    frees: int
    segments: tuple[tuple[int, int], ...]


def device_calls(schedule: Schedule) -> dict[int, AllocatorCalls]:
    """By row; rows that called nothing are left out. Empty for another allocator than cuda-caching.

    CoopsimError if the allocator answers otherwise than the schedule says.
    """
    if schedule.header.get("allocator") != "cuda-caching":
        return {}
    requests = of_schedule(schedule)
    asks = requests.rows[:, KIND] == ALLOCATE
    answers, reserved = _perform(schedule, requests)
    wrong = np.flatnonzero(asks & (answers != schedule.address[requests.source]))
    if len(wrong):
        raise CoopsimError(
            f"row {requests.source[wrong[0]]} of the schedule is not what the caching allocator of PyTorch "
            f"{schedule.header['torch']} does; was it edited, or made by another coopsim?"
        )
    called = (np.diff(reserved, prepend=0) != 0) | (asks & (answers < 0))
    calls, found_all = _calls(schedule, requests, np.flatnonzero(called).tolist())
    # A request that gave back as much as it took leaves no such trace: then every one is looked at.
    return calls if found_all else _calls(schedule, requests, list(range(len(requests))))[0]


def _allocator(schedule: Schedule) -> CachingAllocator:
    h = schedule.header
    return CachingAllocator(h["torch"], h["alloc_conf"], int(h["budget_bytes"]), driver=h.get("driver", FIRST_FIT))


def _perform(schedule: Schedule, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
    reserved = np.zeros(len(requests), np.int64)
    answers, _ = _allocator(schedule).run(requests.rows, reserved)
    return answers, reserved


def _calls(schedule: Schedule, requests: Requests, stops: list[int]) -> tuple[dict[int, AllocatorCalls], bool]:
    """The calls of the requests in `stops`, each by itself; and whether those between them called nothing."""
    allocator = _allocator(schedule)
    found: dict[int, AllocatorCalls] = {}
    before, at = [0] * len(_COUNTERS), 0
    segments: tuple[tuple[int, int], ...] = ()
    for stop in [*stops, len(requests)]:
        allocator.run(requests.rows[at:stop])
        statistics = allocator.statistics()
        if [statistics[c] for c in _COUNTERS] != before:
            return {}, False
        if stop == len(requests):
            break
        allocator.run(requests.rows[stop : stop + 1])
        statistics, at = allocator.statistics(), stop + 1
        after = [statistics[c] for c in _COUNTERS]
        allocs, frees, *failed = (b - a for a, b in zip(before, after, strict=True))
        if allocs or frees or any(failed):
            if allocs or frees:
                segments = tuple((s.address, s.bytes) for s in allocator.segments())
            found[int(requests.source[stop])] = AllocatorCalls(allocs, sum(failed), frees, segments)
        before = after
    return found, True
