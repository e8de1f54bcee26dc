"""Write the requests that a program made of the allocator to a file of numbers."""

import os
from typing import Any

import numpy as np
import torch

from coopsim.observe.torch_private import memory_snapshot

#: The allocator's history keeps the latest entries, this many at most (about 1 GiB of host memory).
LIMIT = 2**22


def save(path: str) -> None:
    """Write the requests of this process so far to `path`, as a NumPy file.

    The array is int64 of shape (n, 2): a block's number, and its bytes, or -1 to free it. Nothing is written if there
    were more requests than the history holds.
    """
    events = memory_snapshot()["device_traces"][torch.cuda.current_device()]
    if len(events) >= LIMIT:
        return
    part = f"{path}.{os.getpid()}.part"
    with open(part, "wb") as file:
        np.save(file, np.array(_rows(events), np.int64).reshape(-1, 2))
    os.replace(part, path)


def _rows(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    numbers: dict[int, int] = {}
    rows: list[tuple[int, int]] = []
    for event in events:
        if event["action"] == "alloc":
            numbers[event["addr"]] = len(rows)
            rows.append((len(rows), event["size"]))
        elif event["action"] == "free_requested":
            rows.append((numbers.pop(event["addr"]), -1))
    return rows
