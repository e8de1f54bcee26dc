"""The simulated caching allocator beside the GPU's: where each request was put, the peaks, the least memory.

Segments are where the history has them; for the least memory, where the rule of the driver puts them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from coopsim.fitting.advise.selfcheck import places
from coopsim.simulate.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.simulate.allocators.caching.trial import attempt, smallest
from coopsim.trace import Trace, snapshot
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests_of import of_trace
from coopsim.trace.snapshot.requests import of_snapshot
from experiments.gpu import names


def compare(model: str, folder: Path) -> dict[str, Any]:
    """Everything of one model. Sizes in bytes."""
    measured = json.loads((folder / names.smallest(model)).read_text())
    torch = measured["machine"]["versions"]["torch"].partition("+")[0]
    found = snapshot.read(folder / names.snapshot(model))
    requests = of_snapshot(found)
    allocator = CachingAllocator(torch, found.conf, ENDLESS, places(found))
    answers, _ = allocator.run(requests.rows)
    takes = np.flatnonzero((requests.rows[:, KIND] == ALLOCATE) & (requests.source >= 0))
    real = np.array([found.events[at].address for at in requests.source[takes].tolist()], np.int64)
    differing = np.flatnonzero(answers[takes] != real)
    free, first = allocator.statistics(), measured["tries"][0]
    return {
        "model": model,
        "torch": torch,
        "allocations": len(real),
        "same_place": len(real) - len(differing),
        "first_difference": int(differing[0]) if len(differing) else None,
        "peak_reserved_bytes": [first["peak_reserved_bytes"], free["reserved_bytes.peak"]],
        "peak_allocated_bytes": [first["peak_allocated_bytes"], free["allocated_bytes.peak"]],
        "smallest_bytes": [measured["smallest_bytes"], smallest(requests, torch, found.conf, driver=CUDA)],
        # Errors that tries caught which fit nevertheless; runs before 2026-11-28 did not count them.
        "caught_ooms": sum(t.get("ooms", 0) for t in measured["tries"] if t["fits"]),
        "confirmed": [t["fits"] for t in measured["confirmed"]],
        "left_bytes": max(t["left_bytes"] for t in measured["tries"]),
    }


def step_peak(trace: Trace) -> list[int]:
    """Peak reserved of the recorded steps: by the GPU's allocator, and simulated from the trace's requests."""
    torch = trace.header["versions"]["torch"].partition("+")[0]
    return [trace.header["peak_reserved_bytes"], attempt(of_trace(trace), torch, "", driver=CUDA).peak_reserved_bytes]
