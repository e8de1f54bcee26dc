"""Replay recorded requests with PyTorch's allocator in a process on the phantom GPU, on cards of many sizes.

`python -m coopsim.run.served` waits for one line of stdin, a question in JSON: `requests`, a file of them
(probes/requests.py), `low` and `high`, in bytes, `part`, and `context`, the bytes of the CUDA context. It prints the
smallest memory between `low` and `high` that serves the requests, if the allocator may use the fraction `part` of it.
PyTorch is imported before the line is read, so that a process that is started early answers sooner.
"""

import json
import os
import sys
from typing import Any

import numpy as np
import torch

from coopsim.phantom.control import Control
from coopsim.run import smallest


def main() -> None:
    """Read the question, print the result of the search, and end the process."""
    line = sys.stdin.readline()
    if not line:  # whoever started it has no question
        os._exit(0)
    asked = json.loads(line)
    requests, low, high, part = np.load(asked["requests"]).tolist(), asked["low"], asked["high"], asked["part"]
    # The driver reads its settings when it is first called.
    os.environ |= {"COOPSIM_PHANTOM_CONTEXT": str(asked["context"]), "COOPSIM_PHANTOM_TOTAL": str(high)}
    device = Control()
    torch.cuda.init()  # type: ignore[no-untyped-call]
    context = device.used_bytes

    def served(nbytes: int) -> bool:
        device.set_total(min(nbytes, context + int(part * nbytes)))
        return _serve(requests)

    print(smallest.smallest(served, low, high), flush=True)
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
