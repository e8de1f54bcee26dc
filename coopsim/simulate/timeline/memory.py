"""Memory over time: bytes used, bytes free, the largest hole, as the rows of a schedule change them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from coopsim.base.types import Action, CoopsimError
from coopsim.simulate.timeline.segments import AllocatorCalls
from coopsim.trace.schedule import GIVES_BACK, Schedule


class Level(NamedTuple):
    """Bytes in use and not; the largest hole; `reserved`: what the allocator holds of the device.

    The budget is reserved from the start but for the caching allocator. Its largest hole is the larger of the largest
    free block of a segment and what it has not reserved; of its blocks only what was asked for is in use. Without
    addresses (`counter`) all that is free is one hole.
    """

    used: int
    free: int
    largest_hole: int
    reserved: int


def levels(schedule: Schedule, calls: dict[int, AllocatorCalls]) -> Iterator[tuple[int, Level]]:
    """(row, the level after it), for each row that changes memory.

    CoopsimError if a row takes bytes that are not free.
    """
    budget = int(schedule.header["budget_bytes"])
    caching = schedule.header.get("allocator") == "cuda-caching"
    holes = _Holes([] if caching else [(0, budget)], {})
    has_addresses = bool((schedule.address[schedule.action == Action.ALLOC] >= 0).any())
    used, reserved = 0, 0 if caching else budget
    live: dict[int, int] = {}
    for row, (action, _, _, _, _, address, nbytes, *_) in enumerate(schedule.rows()):
        if row in calls:
            reserved = sum(n for _, n in calls[row].segments)
            holes = _Holes(calls[row].segments, live)
        elif action != Action.ALLOC and action not in GIVES_BACK:
            continue
        sign = (action == Action.ALLOC) - (action in GIVES_BACK)
        used += sign * nbytes
        if has_addresses and sign > 0:
            live[address] = nbytes
            holes.take(address, nbytes, row)
        elif has_addresses and sign < 0:
            del live[address]
            holes.give(address, nbytes)
        hole = holes.largest() if has_addresses else budget - used
        yield row, Level(used, budget - used, max(hole, budget - reserved), reserved)


class _Holes:
    """The free blocks of some segments, by address; blocks of different segments never merge."""

    def __init__(self, segments: Iterable[tuple[int, int]], live: Mapping[int, int]) -> None:
        self.size: dict[int, int] = dict(segments)
        self.starts = sorted(self.size)
        self.borders = set(self.starts)
        self.heap: list[tuple[int, int]] = [(-n, a) for a, n in self.size.items()]
        heapify(self.heap)
        for address, nbytes in live.items():
            self.take(address, nbytes, -1)

    def take(self, address: int, nbytes: int, row: int) -> None:
        i = bisect_right(self.starts, address) - 1
        start = self.starts[i] if i >= 0 else 0
        end = start + self.size.get(start, 0)
        if i < 0 or address + nbytes > end:
            raise CoopsimError(f"row {row} of the schedule takes bytes that are not free")
        del self.starts[i], self.size[start]
        self._put(start, address - start)
        self._put(address + nbytes, end - address - nbytes)

    def give(self, address: int, nbytes: int) -> None:
        i = bisect_left(self.starts, address)
        if i < len(self.starts) and self.starts[i] == address + nbytes and self.starts[i] not in self.borders:
            nbytes += self.size.pop(self.starts.pop(i))
        if i and address not in self.borders and self.starts[i - 1] + self.size[self.starts[i - 1]] == address:
            address = self.starts.pop(i - 1)
            nbytes += self.size.pop(address)
        self._put(address, nbytes)

    def largest(self) -> int:
        while self.heap and self.size.get(self.heap[0][1]) != -self.heap[0][0]:
            heappop(self.heap)
        return -self.heap[0][0] if self.heap else 0

    def _put(self, start: int, nbytes: int) -> None:
        if nbytes:
            insort(self.starts, start)
            self.size[start] = nbytes
            heappush(self.heap, (-nbytes, start))
