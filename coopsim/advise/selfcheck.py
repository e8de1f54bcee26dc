"""The self-check: does a simulated allocator, given the recorded requests, do what the history says was done?

Only where it does is an answer about other settings worth anything.
"""

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.allocators.caching.version import VERSIONS
from coopsim.kernel.rows import ALLOCATE, AMOUNT, KIND
from coopsim.requests import Requests
from coopsim.snapshot.model import Snapshot
from coopsim.snapshot.rewind import rewind


@dataclass(frozen=True)
class Agreement:
    """How far a version of PyTorch's allocator follows the history.

    requests: for memory, in the history. agreeing: how many, from the first on, after which it held as many bytes as
    recorded. placed: how many of those lie in their segment where they were recorded. message: the first difference, ""
    if there is none.
    """

    torch: str
    requests: int
    agreeing: int
    placed: int
    message: str

    @property
    def whole(self) -> bool:
        """Every request was served as recorded."""
        return self.agreeing == self.requests

    def text(self) -> str:
        """One line for people."""
        if not self.requests:
            return "self-check: the history has no requests (was it recorded? torch.cuda.memory._record_memory_history)"
        if self.whole:
            return (
                f"self-check: torch {self.torch} serves all {self.requests} requests as recorded, {self.placed} of "
                "them at the recorded place"
            )
        return f"self-check: torch {self.torch} serves the first {self.agreeing} of {self.message}"


def check(snapshot: Snapshot, requests: Requests, *, torch: str, total_bytes: int | None = None) -> Agreement:
    """Replay the recorded requests with the recorded settings, on a device of `total_bytes` (else: one without end)."""
    allocator = CachingAllocator(torch, snapshot.conf, total_bytes or ENDLESS)
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
        torch, len(at), agreeing, _placed(snapshot, source[at[:agreeing]], addresses[at[:agreeing]]), message
    )


def best(snapshot: Snapshot, requests: Requests, *, total_bytes: int | None = None) -> Agreement:
    """The newest version of PyTorch that follows the history furthest: a snapshot does not say which one wrote it."""
    tried = [check(snapshot, requests, torch=v, total_bytes=total_bytes) for v in reversed(VERSIONS)]
    return max(tried, key=lambda a: (a.agreeing, a.placed))


def _recorded(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """After each event: bytes of all segments; whether it is a request that failed."""
    growth = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    change = np.array([growth.get(e.action, 0) * e.nbytes for e in snapshot.events], np.int64)
    failed = np.array([e.action == "oom" for e in snapshot.events], np.bool_)
    return sum(s.nbytes for s in rewind(snapshot)) + np.cumsum(change), failed


def _placed(snapshot: Snapshot, source: NDArray[np.int64], addresses: NDArray[np.int64]) -> int:
    """How many allocations lie as far from their segment's other ones as recorded, or are refused as recorded.

    The blocks of expandable segments of one stream and pool count as one segment's.
    """
    plain = {s.address: s.address + s.nbytes for s in rewind(snapshot) if not s.expandable}
    bases = sorted(plain)
    shift: dict[object, int] = {}
    wanted = dict(zip(source.tolist(), addresses.tolist(), strict=True))
    count = 0
    for at, event in enumerate(snapshot.events):
        if event.action == "segment_alloc":
            if event.address not in plain:
                bisect.insort(bases, event.address)
            plain[event.address] = event.address + event.nbytes
            shift.pop(event.address, None)
        elif event.action == "segment_unmap":  # the last page may have gone: then a new range is reserved elsewhere
            for is_large in (False, True):
                shift.pop((event.stream, event.pool, is_large), None)
        elif at in wanted and event.action == "alloc":
            base = bases[bisect.bisect_right(bases, event.address) - 1] if bases else -1
            key = base if event.address < plain.get(base, -1) else (event.stream, event.pool, event.nbytes > 1 << 20)
            count += shift.setdefault(key, event.address - wanted[at]) == event.address - wanted[at]
        elif at in wanted:
            count += 1
    return count
