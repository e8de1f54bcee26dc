"""Where a history says that memory lay, and how much of a simulated run lies there."""

import bisect

import numpy as np
from numpy.typing import NDArray

from coopsim.snapshot.model import Snapshot
from coopsim.snapshot.rewind import rewind

Ints = NDArray[np.int64]
_SMALL = 1 << 20  #: bytes; larger requests never come from a segment of small blocks


def places(snapshot: Snapshot) -> Ints:
    """Address and bytes of each segment of cudaMalloc: those at the start, then the others as they were made."""
    found = [(s.address, s.nbytes) for s in rewind(snapshot) if not s.expandable]
    found += [(e.address, e.nbytes) for e in snapshot.events if e.action == "segment_alloc"]
    return np.array(found, np.int64).reshape(-1, 2)


def placed(snapshot: Snapshot, source: Ints, addresses: Ints) -> int:
    """How many of these requests lie at their recorded address, or are refused as recorded.

    source: their events; addresses: what a simulated allocator answered. It counts the addresses of expandable segments
    from an origin of its own: there those of one stream and pool must lie as far apart as recorded.
    """
    plain = {s.address: s.address + s.nbytes for s in rewind(snapshot) if not s.expandable}
    bases = sorted(plain)
    shift: dict[object, int] = {}
    answers = dict(zip(source.tolist(), addresses.tolist(), strict=True))
    count = 0
    for at, event in enumerate(snapshot.events):
        if event.action == "segment_alloc":
            if event.address not in plain:
                bisect.insort(bases, event.address)
            plain[event.address] = event.address + event.nbytes
        elif event.action == "segment_unmap":  # the last page may have gone: then a new range is reserved elsewhere
            for is_large in (False, True):
                shift.pop((event.stream, event.pool, is_large), None)
        elif at in answers and event.action == "alloc":
            base = bases[bisect.bisect_right(bases, event.address) - 1] if bases else -1
            off = event.address - answers[at]
            key = (event.stream, event.pool, event.nbytes > _SMALL)
            count += off == (0 if event.address < plain.get(base, -1) else shift.setdefault(key, off))
        elif at in answers:
            count += 1
    return count
