"""The replay: steps, one after another, on PyTorch's allocator, simulated (allocators/caching)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from coopsim.run.longrun.recorded import Ints
from coopsim.run.longrun.sections import Template
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, EMPTY, FREE, KIND, NUMBER, STREAM

#: Columns of `Played.bytes`: peaks within the step, and what there is at its end.
PEAK_ALLOCATED, PEAK_RESERVED, ALLOCATED, RESERVED = range(4)


@dataclass(frozen=True)
class Played:
    """What came of it. bytes: int64, a row per step, columns as named above; up to the step that ran out of memory.

    failed: whether the last row's step did, with a request of `requested` bytes. retries: how often the allocator gave
    back what it had cached, to try again. amiss: frees of what is not there, because steps were played in an order in
    which they were not recorded.
    """

    bytes: Ints
    failed: bool
    requested: int
    retries: int
    amiss: int


def play(steps: Iterable[Sequence[Template]], torch: str, conf: str, total_bytes: int, limit_bytes: int = 0) -> Played:
    """Play steps, given as their sections, on a device with `total_bytes` for the allocator, until one finds no memory.

    limit_bytes: what the script lets the allocator take, 0: all.
    """
    allocator = CachingAllocator(torch, conf, total_bytes, driver=CUDA)
    if limit_bytes:
        allocator.set_memory_fraction(min(limit_bytes / total_bytes, 1.0))
    player = _Player(allocator)
    found: list[tuple[int, int, int, int]] = []
    requested = 0
    for number, sections in enumerate(steps, 1):
        allocator.reset_peaks()
        for slot, template in enumerate(sections):
            requested = player.section(number, slot, template)
            if requested:
                break
        says = allocator.statistics()
        found.append(
            (
                says["allocated_bytes.peak"],
                says["reserved_bytes.peak"],
                says["allocated_bytes.current"],
                says["reserved_bytes.current"],
            )
        )
        if requested:
            break
    retries = allocator.statistics()["num_alloc_retries"]
    return Played(np.array(found, np.int64).reshape(-1, 4), bool(requested), requested, retries, player.amiss)


class _Player:
    """Gives allocations numbers of the allocator: what a section leaves behind keeps its own until it is freed."""

    def __init__(self, allocator: CachingAllocator) -> None:
        self._allocator = allocator
        self._left: dict[tuple[int, int], Ints] = {}  # by step and slot: numbers of what it left, -1: freed
        self._free: list[int] = []
        self._next = 0
        self.amiss = 0

    def section(self, step: int, slot: int, of: Template) -> int:
        """Play a section. Returns the bytes of the request that found no memory, 0 if all did."""
        passing, kept = len(of.sizes) - len(of.leaves), len(of.leaves)
        numbers = np.empty(len(of.sizes), np.int64)
        stays = np.zeros(len(of.sizes), np.bool_)
        stays[of.leaves] = True
        ours = self._take(passing + kept)
        numbers[~stays], numbers[stays] = ours[:passing], ours[passing:]
        foreign = self._foreign(step, of)
        rows = np.zeros((len(of.what), 4), np.int64)
        rows[:, KIND] = np.where(of.takes, ALLOCATE, FREE)
        own = of.what >= 0
        rows[own, NUMBER] = numbers[of.what[own]]
        rows[~own, NUMBER] = foreign[-1 - of.what[~own]]
        rows[of.takes, AMOUNT] = of.sizes
        rows[of.takes, STREAM] = of.streams
        rows = rows[rows[:, NUMBER] >= 0]
        if of.empties:
            rows = np.insert(rows, [min(at, len(rows)) for at in of.empties], (EMPTY, 0, 0, 0), axis=0)
        answers, _ = self._allocator.run(rows)
        failed = np.flatnonzero((rows[:, KIND] == ALLOCATE) & (answers < 0))
        self._left[step, slot] = ours[passing:]
        self._free += ours[:passing].tolist() + foreign[foreign >= 0].tolist()
        return int(rows[failed[0], AMOUNT]) if len(failed) else 0

    def _take(self, n: int) -> Ints:
        again = [self._free.pop() for _ in range(min(n, len(self._free)))]
        new = range(self._next, self._next + n - len(again))
        self._next = new.stop
        return np.array([*again, *new], np.int64)

    def _foreign(self, step: int, of: Template) -> Ints:
        """The numbers of what earlier sections left that this one frees; -1 for what is not there."""
        found = np.full(len(of.lefts), -1, np.int64)
        for i, (age, slot, at) in enumerate(of.lefts):
            left = self._left.get((step - age, slot))
            if left is None or at > len(left) or left[-at] < 0:
                self.amiss += 1
                continue
            found[i] = left[-at]
            left[-at] = -1
        return found
