"""Where the driver puts segments: the addresses of the first ones that PyTorch's allocator asks for."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

#: MiB, in order: those that fill a chunk of 32 MiB together, larger ones, and small ones again.
_SIZES = (2, 2, 20, 20, 2, 20, 34, 68, 20, 130, 2, 356, 20, 34, 2, 66)


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield one measurement, of all."""
    yield "addresses", _addresses


def _addresses() -> dict[str, Any]:
    allocate: Any = torch.cuda.caching_allocator_alloc
    rows = []
    for mib in _SIZES:
        if mib > torch.cuda.mem_get_info()[0] >> 21:
            break
        # up to 1 MiB is served from a segment of 2 MiB, below 10 MiB from one of 20 MiB: all are filled
        parts = {2: 2, 20: 4}.get(mib, 1)
        first = allocate((mib << 20) // parts)
        for _ in range(parts - 1):
            allocate((mib << 20) // parts)
        rows.append({"bytes": mib << 20, "address": first})
    return {"rows": rows}
