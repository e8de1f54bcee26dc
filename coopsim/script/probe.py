"""A process on the phantom GPU that makes recorded requests of PyTorch's allocator, on cards of many sizes.

python -m coopsim.script.probe REQUESTS LOW HIGH prints the smallest memory that serves them.
"""

import os
import sys
from typing import Any

import numpy as np
import torch

from coopsim.phantom.control import Control
from coopsim.script import smallest


def main() -> None:
    """Serve one question and end the process."""
    requests, low, high = np.load(sys.argv[1]).tolist(), int(sys.argv[2]), int(sys.argv[3])
    device = Control()
    torch.cuda.init()  # type: ignore[no-untyped-call]

    def served(nbytes: int) -> bool:
        device.set_total(nbytes)
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
