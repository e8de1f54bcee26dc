"""An allocator that serves requests: a list of free blocks for each exact size, and no block is ever split.

    python examples/allocators/by_size.py traces/unet.parquet    what it and the others reserve above the bound

To make one of coopsim's own, put the file into coopsim/simulate/allocators/serving/ and its name into SERVING there.
"""

import sys
from collections import defaultdict

from coopsim.simulate.allocators.serving import GRANULE, SERVING, Result
from coopsim.simulate.allocators.serving.result import ServingMeter
from coopsim.trace import load
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace


def run(requests: Requests) -> Result:
    """Serve all requests from lists of free blocks, one list per size."""
    meter = ServingMeter()
    free: dict[int, int] = defaultdict(int)  # size: how many free blocks
    held: dict[int, tuple[int, int]] = {}  # allocation: bytes asked for, bytes of its block
    for take, item, nbytes, *_ in requests.memory():
        if take:
            size = -(-nbytes // GRANULE) * GRANULE
            if free[size]:
                free[size] -= 1
            else:
                meter.reserve(size)
            held[item] = nbytes, size
        else:
            free[held[item][1]] += 1
        sign = 1 if take else -1
        meter.add("requested", sign * held[item][0])
        meter.add("allocated", sign * held[item][1])
    return meter.result("by-size", {"sizes": len(free)})


def main(path: str) -> None:
    requests = of_trace(load(path), iterations=2)
    bound = requests.peak_bytes(GRANULE)
    for name, serve in {"by-size": run, **SERVING}.items():
        print(f"{name:40} {serve(requests).peak_reserved / bound - 1:8.2%} above the bound")


if __name__ == "__main__":
    main(*sys.argv[1:])
