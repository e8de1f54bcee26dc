"""PyTorch's CUDA caching allocator, simulated: what users call."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import DRIVER
from coopsim.simulate.allocators.caching import settings, state, version
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.conf import parse
from coopsim.simulate.allocators.caching.device import find_driver
from coopsim.simulate.allocators.caching.perform import CROWDED, GONE, perform
from coopsim.trace.request_rows import BEGIN, KIND, NUMBER

ENDLESS = 1 << 50  #: bytes of a device that never runs out of memory

LARGEST_REQUEST = (1 << 60) - 1  #: bytes; torch refuses a tensor of an exbibyte
_STATISTICS = {
    "allocated_bytes": state.K_ALLOCATED,
    "reserved_bytes": state.K_RESERVED,
    "active_bytes": state.K_ACTIVE,
    "inactive_split_bytes": state.K_INACTIVE_SPLIT,
    "requested_bytes": state.K_REQUESTED,
    "segments": state.K_SEGMENTS,
}
_COUNTERS = {
    "num_alloc_retries": state.K_RETRIES,
    "num_ooms": state.K_OOMS,
    "num_device_alloc": state.K_DEVICE_ALLOCS,
    "num_device_free": state.K_DEVICE_FREES,
}


class CachingBlock(NamedTuple):
    """A block of a segment.

    state: A allocated, P freed but waiting for events, f free. requested: bytes of the request; stale in free blocks.
    """

    state: str
    bytes: int
    requested: int


class CachingSegment(NamedTuple):
    """A range of memory of cudaMalloc, or a mapped run of an expandable segment; its blocks in address order.

    pool: the number of its private pool, 0 if it is of none.
    """

    address: int
    bytes: int
    stream: int
    is_large: bool
    is_expandable: bool
    blocks: list[CachingBlock]
    pool: int = 0


class CachingAllocator:
    """PyTorch's CUDA caching allocator on a simulated device of `total_bytes`.

    torch: version, 2.6 to 2.15; its rules are those of the last release of that minor version (`rules.name`).
    conf: what PYTORCH_CUDA_ALLOC_CONF holds. Raises CoopsimError where torch would refuse the string, or if the version
    is not simulated. Addresses of expandable segments count from 0, apart from those of cudaMalloc.
    places: where a real device put the segments of cudaMalloc, rows of address and bytes in the order in which they
    were made. One that is asked for with another size, or whose place is taken, goes where there is room. driver: where
    segments go that `places` does not have, `first-fit` (from 0 up) or `cuda`, as on a card.
    """

    def __init__(
        self,
        torch: str = version.NEWEST,
        conf: str = "",
        total_bytes: int = 80 << 30,
        places: NDArray[np.int64] | None = None,
        driver: str = DRIVER,
    ) -> None:
        if not 0 < total_bytes <= LARGEST_REQUEST:
            raise CoopsimError(f"a device of {total_bytes} bytes cannot be")
        self.rules = version.find(torch)
        self.total_bytes = total_bytes
        self.settings = parse(conf, self.rules)
        self.state = state.new_state()
        if places is not None:
            self.state = state.with_places(self.state, places)
        settings.apply(self.settings, self.rules, total_bytes, self.state, find_driver(driver))
        self._held = np.full(0, GONE, np.int64)

    def run(
        self, requests: NDArray[np.int64], reserved: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], int]:
        """Perform requests until one of kind STOP, which is not. Returns the answers, and how many were performed.

        requests: int64 rows of kind, allocation number (small, from 0), bytes or ticks, stream, as rows.py has them. An
        answer is an address, or -1 for a request that found no memory; other rows have no meaning. `reserved`, if
        given, is filled with the bytes of all segments after each request.
        """
        numbers = int(requests[:, NUMBER].max(initial=-1)) + 1
        if numbers > len(self._held):
            self._held = np.concatenate([self._held, np.full(numbers - len(self._held), GONE, np.int64)])
        pools = requests[requests[:, KIND] >= BEGIN, NUMBER]
        self.state = state.with_pools(self.state, int(pools.max(initial=0)))
        answers = np.full(len(requests), -1, np.int64)
        sizes = np.empty(0, np.int64) if reserved is None else reserved
        start = 0
        while True:
            start, why = perform(self.state, requests, start, self._held, answers, sizes)
            if why != CROWDED:
                return answers, int(start)
            A = self.state
            self.state = state.grow(A, 4 * len(A.B) + 64, 2 * len(A.L) + 64, 2 * A.T.shape[1] + 64)

    def set_memory_fraction(self, fraction: float) -> None:
        """torch.cuda.set_per_process_memory_fraction; CoopsimError outside 0 to 1."""
        if not 0 <= fraction <= 1:
            raise CoopsimError(f"a memory fraction of {fraction:g} is not in 0 to 1")
        settings.limit(self.settings, self.rules, self.total_bytes, fraction, self.state)

    def reset_peaks(self) -> None:
        """torch.cuda.reset_peak_memory_stats."""
        for at in _STATISTICS.values():
            self.state.K[at + 1] = self.state.K[at]

    def statistics(self) -> Mapping[str, int]:
        """Bytes and counts, current and peak, under PyTorch's names."""
        K = self.state.K
        result = {f"{name}.current": int(K[at]) for name, at in _STATISTICS.items()}
        result |= {f"{name}.peak": int(K[at + 1]) for name, at in _STATISTICS.items()}
        return result | {name: int(K[at]) for name, at in _COUNTERS.items()}

    def segments(self) -> list[CachingSegment]:
        """All memory, in address order: what torch.cuda.memory_snapshot shows."""
        A = self.state
        sets = [which for which in range(len(A.sets)) if which != c.SCRATCH]
        free = {int(b) for which in sets for b in A.sets[which, : A.K[c.K_COUNT + 2 * which]]}
        used = {int(b) for b in self._held if b >= 0} | {int(b) for b in A.L[_events(A), state.L_BLOCK]}
        heads = [
            b for b in free | used if A.B[b, c.MAPPED] and (A.B[b, c.PREV] < 0 or not A.B[A.B[b, c.PREV], c.MAPPED])
        ]
        return [self._segment(b) for b in sorted(heads, key=lambda b: A.B[b, c.ADDRESS])]

    def _segment(self, head: int) -> CachingSegment:
        B, blocks, b = self.state.B, list[CachingBlock](), head
        while b >= 0 and B[b, c.MAPPED]:
            mark = "A" if B[b, c.ALLOCATED] else "P" if B[b, c.PENDING] > 0 or B[b, c.USES] >= 0 else "f"
            blocks.append(CachingBlock(mark, int(B[b, c.SIZE]), int(B[b, c.REQUESTED])))
            b = int(B[b, c.NEXT])
        address, stream = int(B[head, c.ADDRESS]), int(B[head, c.STREAM])
        pool = int(B[head, c.POOL])
        is_large, is_expandable = not pool & c.SMALL, bool(B[head, c.SPACE] >= 0)
        number = max((pool - c.PRIVATE) // c.PER_POOL, 0)
        return CachingSegment(address, sum(b.bytes for b in blocks), stream, is_large, is_expandable, blocks, number)


def _events(A: Any) -> list[int]:
    """Links of all events that have not been seen to complete, and of all blocks that wait for a capture's end."""
    links = []
    link = A.K[state.K_DEFERRED]
    while link >= 0:
        links.append(int(link))
        link = A.L[link, state.L_NEXT]
    for row in A.T[state.QUEUES]:
        link = row[state.T_HEAD] if row[state.T_DISTANCE] >= 0 else state.NONE
        while link >= 0:
            links.append(int(link))
            link = A.L[link, state.L_NEXT]
    return links
