"""Replay recorded requests with PyTorch's allocator in a process on the phantom GPU, on cards of many sizes.

`python -m coopsim.script.served REQUESTS LOW HIGH PART` prints the smallest memory, in bytes between LOW and
HIGH, that serves the requests in a file (watching/requests.py), if the allocator may use the fraction PART of it.
"""

import os
import sys
from typing import Any

import numpy as np
import torch

from coopsim.phantom.control import Control
from coopsim.script import smallest


def main() -> None:
    """Run the search that the command line asks for, print its result, and end the process."""
    requests, low, high, part = np.load(sys.argv[1]).tolist(), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    device = Control()
    torch.cuda.init()  # type: ignore[no-untyped-call]
    context = device.used_bytes

    def served(nbytes: int) -> bool:
        device.set_total(min(nbytes, context + int(part * nbytes)))
        return _serve(requests)

    print(smallest.smallest(served, low, high)[0], flush=True)
    os._exit(0)


def _serve(requests: list[list[int]]) -> bool:
    allocate: Any = torch.cuda.caching_allocator_alloc
    free: Any = torch.cuda.caching_allocator_delete
    address: dict[int, int] = {}
    try:
        for number, nbytes in requests:
            if nbytes < 0:
                free(address.pop(number))
            else:
                address[number] = allocate(nbytes)
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        for block in address.values():
            free(block)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
