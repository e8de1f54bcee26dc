"""Compare the addresses of a simulated run with those in a history."""

import bisect

import numpy as np
from numpy.typing import NDArray

from coopsim.snapshot.model import Snapshot
from coopsim.snapshot.rewind import rewind

Ints = NDArray[np.int64]
_SMALL = 1 << 20  #: bytes; larger requests never come from a segment of small blocks


def places(snapshot: Snapshot) -> Ints:
    """Return (address, bytes) of each segment made by cudaMalloc, shape (n, 2): those at the start, then in order."""
    found = [(s.address, s.nbytes) for s in rewind(snapshot) if not s.expandable]
    found += [(e.address, e.nbytes) for e in snapshot.events if e.action == "segment_alloc"]
    return np.array(found, np.int64).reshape(-1, 2)


def placed(snapshot: Snapshot, source: Ints, addresses: Ints) -> int:
    """Return how many requests got their recorded address, or failed as recorded.

    source: the requests' events; addresses: what a simulated allocator returned. It numbers addresses in expandable
    segments from an origin of its own, so there only the distances within one stream and pool are compared.
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
        elif event.action == "segment_unmap":  # perhaps the last page: a new range would be reserved elsewhere
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
