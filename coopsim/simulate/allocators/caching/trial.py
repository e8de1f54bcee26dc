"""One try: the recorded requests on PyTorch's allocator of some version, with some settings, on some device."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coopsim.simulate.allocators import DRIVER
from coopsim.simulate.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests import Requests


@dataclass(frozen=True)
class Trial:
    """What came of it.

    failed_at: the row of the first request that found no memory, None if all did. peak_reserved_bytes: up to there.
    device_calls: cudaMalloc, cudaFree and mappings, which take the time; retries: how often memory was given back to
    make room.
    """

    torch: str
    conf: str
    failed_at: int | None
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    device_calls: int
    retries: int

    @property
    def fits(self) -> bool:
        """Nothing ran out of memory."""
        return self.failed_at is None

    def row(self) -> dict[str, Any]:
        """For tables and JSON."""
        row = asdict(self)
        del row["failed_at"]
        return row | {"fits": self.fits}


def attempt(requests: Requests, torch: str, conf: str, total_bytes: int = ENDLESS, driver: str = DRIVER) -> Trial:
    """Perform the requests, up to the first that finds no memory. driver: as of CachingAllocator."""
    allocator = CachingAllocator(torch, conf, total_bytes, driver=driver)
    answers, _ = allocator.run(requests.rows)
    failed = np.flatnonzero((requests.rows[:, KIND] == ALLOCATE) & (answers < 0))
    at = int(failed[0]) if len(failed) else None
    if at is not None:
        allocator = CachingAllocator(torch, conf, total_bytes, driver=driver)
        allocator.run(requests.rows[: at + 1])
    found = allocator.statistics()
    return Trial(
        torch=torch,
        conf=conf,
        failed_at=at,
        peak_reserved_bytes=found["reserved_bytes.peak"],
        peak_allocated_bytes=found["allocated_bytes.peak"],
        device_calls=found["num_device_alloc"] + found["num_device_free"],
        retries=found["num_alloc_retries"],
    )


def smallest(requests: Requests, torch: str, conf: str, step: int = 2 << 20, driver: str = DRIVER) -> int:
    """The smallest device, in bytes, on which a bisection finds that everything fits, to 2 MiB.

    Fitting is not strictly monotone in the memory there is: a smaller device may fit too, by luck.
    """
    low = requests.peak_bytes() // step  # cannot fit below what is held at once
    high = -(-attempt(requests, torch, conf, driver=driver).peak_reserved_bytes // step)
    while low < high:
        middle = (low + high) // 2
        if attempt(requests, torch, conf, max(middle, 1) * step, driver).fits:
            high = middle
        else:
            low = middle + 1
    return high * step
