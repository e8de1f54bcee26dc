"""What PyTorch's host takes for an op that takes the card less."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

_CALLS, _TIMES = 500, 9  # fewer than the launches that may wait on a card (1024)


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield one measurement."""
    yield "host", _host


def _host() -> dict[str, Any]:
    x = torch.zeros(8, device="cuda")
    found = []
    for _ in range(_TIMES + 1):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(_CALLS):
            x.add_(1.0)
        found.append((time.perf_counter_ns() - start) / _CALLS)
    return {"host_ns_per_op": round(statistics.median(found[1:]))}
