"""PyTorch's caching allocator over the requests of a program; allocators/caching/ says what it is."""

from dataclasses import dataclass

import numpy as np

from coopsim.simulate.allocators import DRIVER
from coopsim.simulate.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.simulate.allocators.caching.version import NEWEST
from coopsim.simulate.allocators.serving.result import Result, ServingOutOfMemory
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, KIND
from coopsim.trace.requests import Requests


@dataclass(frozen=True)
class CachingOptions:
    """`conf`: what PYTORCH_CUDA_ALLOC_CONF holds. `memory`: bytes of the device. `driver`: as of CachingAllocator."""

    torch: str = NEWEST
    conf: str = ""
    memory: int = ENDLESS
    driver: str = DRIVER


def run(requests: Requests, options: CachingOptions | None = None) -> Result:
    """Serve all requests. OutOfMemory if the device has too little; CoopsimError for settings that torch refuses."""
    options = options or CachingOptions()
    allocator = CachingAllocator(options.torch, options.conf, options.memory, driver=options.driver)
    answers, _ = allocator.run(requests.rows)
    s = allocator.statistics()
    failed = np.flatnonzero((requests.rows[:, KIND] == ALLOCATE) & (answers < 0))
    if len(failed):
        raise ServingOutOfMemory(int(requests.rows[failed[0], AMOUNT]), s["reserved_bytes.current"], options.memory)
    return Result(
        f"cuda-caching ({options.conf})" if options.conf else "cuda-caching",
        s["requested_bytes.peak"],
        s["allocated_bytes.peak"],
        s["active_bytes.peak"],
        s["reserved_bytes.peak"],
        s["num_device_alloc"],
        s["num_device_free"],
        {"retries": s["num_alloc_retries"], "segments": s["segments.peak"]},
    )
