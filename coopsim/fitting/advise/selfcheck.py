"""The self-check: compare a simulated allocator, given the recorded requests, with the recorded history.

Only if they agree can answers about other settings be trusted. Which of several free blocks of one size serves a
request depends on their addresses, and these on where the driver put the segments: they are put where they were
recorded.

Compare the addresses of a simulated run with those in a history.
"""

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.simulate.allocators.caching.version import between
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, KIND
from coopsim.trace.requests import Requests
from coopsim.trace.snapshot.model import Snapshot
from coopsim.trace.snapshot.rewind import rewind
from coopsim.trace.snapshot.written_by import Written

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


@dataclass(frozen=True)
class Agreement:
    """How far a version of PyTorch's allocator agrees with the history.

    torch: the version. written_by: the versions that can have written the file. requests: the number of allocations in
    the history. agreeing: how many of them, from the first on, left as many bytes reserved as recorded. placed: how
    many of those got their recorded address (in expandable segments: their distance from others of their stream and
    pool). message: the first difference, "" if there is none.
    """

    torch: str
    written_by: Written
    requests: int
    agreeing: int
    placed: int
    message: str

    @property
    def whole(self) -> bool:
        """Whether every request was served as recorded."""
        return self.agreeing == self.requests

    def text(self) -> str:
        """Return the result as one line of text."""
        if not self.requests:
            return "self-check: the history has no requests (was it recorded? torch.cuda.memory._record_memory_history)"
        if self.whole:
            where = "all" if self.placed == self.requests else f"{self.placed}"
            return (
                f"self-check: torch {self.torch} serves all {self.requests} requests as recorded, {where} of them at "
                "the recorded address (segments are placed where they were recorded)"
            )
        return f"self-check: torch {self.torch} serves the first {self.agreeing} of {self.message}"


def check(snapshot: Snapshot, requests: Requests, *, torch: str, total_bytes: int | None = None) -> Agreement:
    """Replay the recorded requests with the recorded settings, and return how far they agree with the history.

    `total_bytes`: the device's memory; None means unlimited.
    """
    allocator = CachingAllocator(torch, snapshot.conf, total_bytes or ENDLESS, places(snapshot), CUDA)
    simulated = np.zeros(len(requests), np.int64)
    addresses, _ = allocator.run(requests.rows, simulated)
    recorded, recorded_failed = _recorded(snapshot)
    kinds, source = requests.rows[:, KIND], requests.source
    at = np.flatnonzero((kinds == ALLOCATE) & (np.arange(len(requests)) >= requests.prologue))
    same = (simulated[at] == recorded[source[at]]) & ((addresses[at] < 0) == recorded_failed[source[at]])
    agreeing = len(at) if same.all() else int(np.argmin(same))
    message = ""
    if agreeing < len(at):
        row = at[agreeing]
        was, now = int(recorded[source[row]]), int(simulated[row])
        failed = (
            ("served", "refused")[int(recorded_failed[source[row]])],
            ("served", "refused")[int(addresses[row] < 0)],
        )
        message = (
            f"{len(at)} requests as recorded; the next, for {requests.rows[row, AMOUNT]} bytes, was {failed[0]} with "
            f"{was} bytes reserved, and is {failed[1]} with {now} here"
        )
    return Agreement(
        torch,
        snapshot.written,
        len(at),
        agreeing,
        placed(snapshot, source[at[:agreeing]], addresses[at[:agreeing]]),
        message,
    )


def best(snapshot: Snapshot, requests: Requests, *, total_bytes: int | None = None) -> Agreement:
    """Return the result of the version that agrees furthest with the history, the newest of equals.

    Versions that can have written the snapshot are tried; if none of them is simulated, the nearest one, as 2.6 for
    older ones.
    """
    versions = between(snapshot.written.earliest, snapshot.written.latest)
    tried = [check(snapshot, requests, torch=v, total_bytes=total_bytes) for v in reversed(versions)]
    return max(tried, key=lambda a: (a.agreeing, a.placed))


def _recorded(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return, per event, the bytes of all segments after it, and whether it is a request that failed."""
    growth = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    change = np.array([growth.get(e.action, 0) * e.nbytes for e in snapshot.events], np.int64)
    failed = np.array([e.action == "oom" for e in snapshot.events], np.bool_)
    return sum(s.nbytes for s in rewind(snapshot)) + np.cumsum(change), failed
