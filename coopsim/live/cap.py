"""The budget as a cap on what the allocator takes from the GPU, be it PyTorch's caching allocator or an arena.

At the cap the caching allocator first returns the free blocks that it caches; if that is not enough, the op runs out of
memory, and values can be evicted. Where an arena serves all memory, only ops that must not fail can exceed the budget.
Offsets are in bytes from the arena's start; its latest failed request is the one that found no room most recently.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch

from coopsim.base.budget import memory_fraction
from coopsim.live import device
from coopsim.live.arena.hole import Hole, Ways, cheapest, moves
from coopsim.live.arena.library import FAILS, GROWS, RAISES, Arena

_STEP = 2 << 20  #: bytes that the allocator takes from the GPU at once, at least
_PART = 128  #: a cap that is too low is raised by the limit divided by this
_PAGE = 20 << 20  #: bytes of a page of an expandable segment, by which the allocator may exceed its cap


class AllocatorCap(Protocol):
    """A limit on the memory that the device's allocator takes during one step, whichever allocator that is."""

    #: Whether the allocator leaves gaps that no request fits into, so that it takes more than is allocated.
    fragments: bool

    def set(self) -> None:
        """Apply the limit, from the start of a step, or after `lift`."""

    @property
    def holds(self) -> bool:
        """Whether an op that runs out of memory does so because of this limit."""

    def higher(self, most: int | None = None) -> bool:
        """Raise the limit a little, for the rest of the step, to `most` bytes at most.

        True if that was done, False if it cannot be raised further.
        """

    def exceeded(self, limit: int) -> bool:
        """Whether the allocator has taken more than `limit` bytes."""

    def lift(self) -> None:
        """Remove the limit until `set` is called."""

    def end(self) -> None:
        """Remove what was applied for the step, which is over."""

    def hole(self, ways: Ways) -> Hole | None:
        """What frees an address range for a request that failed, in these ways and by moving blocks.

        None for an allocator that finds room itself once enough is free.
        """


class CachingCap:
    """An AllocatorCap of PyTorch's caching allocator, by way of its per-process memory fraction.

    Between `set` and `lift` the allocator takes at most `limit` bytes from the current GPU, and no op can catch that it
    found no memory (device.Ooms). If the program has set a lower fraction itself, that stays.
    """

    fragments = True

    def __init__(self, limit: int) -> None:
        self._page = _PAGE if _expandable() else 0
        self._limit = limit - min(self._page, limit // _PART)
        self._now = self._limit
        self._device = torch.cuda.current_device()
        self._total = torch.cuda.get_device_properties(self._device).total_memory
        self._before: float | None = None

    def set(self) -> None:
        """Apply the limit, unless the program has set a lower one.

        Empty the allocator's cache if it exceeds that by more than a page: pages that each step takes stay.
        """
        before = torch.cuda.get_per_process_memory_fraction(self._device)
        if self._limit < before * self._total:
            if device.reserved() > self._limit + self._page:
                torch.cuda.empty_cache()
            self._before = before
            device.ooms().raises = True
            self._allow(self._limit)

    @property
    def holds(self) -> bool:
        """Whether the limit is applied, which it is only where the program has not set a lower one."""
        return self._before is not None

    def higher(self, most: int | None = None) -> bool:
        """Raise the limit by 1/128 of it, or by 2 MiB if that is more, to `most` bytes at most; return whether it was.

        It is not raised if it is not applied (`holds`), or is at `most` already.
        """
        wanted = self._now + max(self._limit // _PART, _STEP)
        if self._before is None or (most is not None and self._now >= most):
            return False
        self._allow(wanted if most is None else min(wanted, most))
        if self._now >= self._before * self._total:
            self.lift()
        return True

    def exceeded(self, limit: int) -> bool:
        """Whether the allocator has reserved more than `limit` bytes."""
        return device.reserved() > limit

    def lift(self) -> None:
        """Restore the fraction that the program had set; does nothing if the limit is not applied."""
        if self._before is not None:
            torch.cuda.set_per_process_memory_fraction(self._before, self._device)
            self._before = None
            device.ooms().raises = False

    def end(self) -> None:
        """Lift the limit, as the step is over."""
        self.lift()

    def hole(self, _ways: Ways) -> None:
        """None: the caching allocator finds room itself once enough is free."""

    def _allow(self, nbytes: int) -> None:
        self._now = nbytes
        torch.cuda.set_per_process_memory_fraction(memory_fraction(nbytes, self._total), self._device)


def _expandable() -> bool:
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    return any("expandable_segments:True" in os.environ.get(name, "") for name in names)


class ArenaCap:
    """An AllocatorCap (live/cap.py) of an arena, whose size is the budget."""

    fragments = False  #: blocks are moved until what is free is contiguous
    holds = True

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._begun = int(arena.stats.requests)
        self._grows = False

    def set(self) -> None:
        """Let the arena take no memory beyond its reservation, unless `higher` was called in this step.

        No op can catch that there was no room in it (device.Ooms).
        """
        self._arena.when_full(GROWS if self._grows else RAISES)

    def higher(self, _most: int | None = None) -> bool:
        """Let the rest of the step take from the GPU what finds no room in the arena.

        True if this is new, False if it was called in this step before.
        """
        if self._grows:
            return False
        self._grows = True
        self.lift()
        return True

    def lift(self) -> None:
        """Let requests that find no room in the arena be served from the rest of the GPU, until `set` is called."""
        self._arena.when_full(GROWS)

    def end(self) -> None:
        """End the step: undo `higher`, so that the next one begins within the reservation."""
        self._grows = False
        self._arena.when_full(FAILS)

    def exceeded(self, _limit: int) -> bool:
        """Whether blocks lie outside the reservation, and so beyond the budget; the argument is not used."""
        return int(self._arena.stats.outside) > 0

    def hole(self, ways: Ways) -> Hole:
        """A new Hole, which frees an address range for a request that failed, in these ways and by moving blocks."""
        return Hole(self, ways)

    @property
    def missing(self) -> int:
        """Bytes that have to be freed, anywhere in the arena, before the latest failed request can succeed.

        0 or less if enough is free, but no hole is large enough.
        """
        stats = self._arena.stats
        return int(stats.wanted + stats.allocated - stats.outside - stats.size)

    def offset(self, storage: torch.UntypedStorage) -> int:
        """The offset, in bytes from the arena's start, of the memory of a storage, which must have some."""
        return super(torch.UntypedStorage, storage).data_ptr() - int(self._arena.stats.base)

    def cheapest(self, price: Mapping[int, float]) -> list[int]:
        """Offsets of adjacent blocks whose eviction makes room for the latest failed request, at the least total price.

        price: of each block that can be evicted, by offset, in any unit. [] if no such blocks make room.
        """
        stats = self._arena.stats
        return cheapest(self._layout(), price, int(stats.wanted), int(stats.size))

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        """Moves that make room for the latest failed request, in any order: (offset, new offset) of each block moved.

        movable: offsets of blocks that the caller is able to move; of these, only blocks allocated in this step are
        considered. Nothing is moved here. [] if no moves were found that make room.
        """
        stats = self._arena.stats
        young = {at for at, _, born in self._arena.layout() if born >= self._begun and at in movable}
        return moves(self._layout(), young, int(stats.wanted), int(stats.size))

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Within the context, place the first request at `offset`, if that range is free; else as any other."""
        self._arena.put_next(offset)
        try:
            yield
        finally:
            self._arena.put_next(-1)

    def _layout(self) -> list[tuple[int, int]]:
        return [(at, nbytes) for at, nbytes, _ in self._arena.layout()]
