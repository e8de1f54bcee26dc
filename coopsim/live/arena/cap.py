"""The budget where an arena (an allocator of our own) serves all memory: only ops that must not fail can exceed it.

Offsets are in bytes from the arena's start. The latest failed request is the one that found no room most recently.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import torch

from coopsim.live.arena import window
from coopsim.live.arena.hole import Hole, Ways
from coopsim.live.arena.library import Arena


class ArenaCap:
    """An AllocatorCap (live/cap.py) of an arena, whose size is the budget."""

    fragments = False  #: blocks are moved until what is free is contiguous
    holds = True

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._begun = int(arena.stats.requests)
        self._grows = False

    def set(self) -> None:
        """Let the arena take no memory beyond its reservation, unless `higher` was called in this step."""
        self._arena.may_grow(yes=self._grows)

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
        self._arena.may_grow(yes=True)

    def end(self) -> None:
        """End the step: undo `higher`, so that the next one begins within the reservation."""
        self._grows = False
        self.set()

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
        return window.cheapest(self._layout(), price, int(stats.wanted), int(stats.size))

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        """Moves that make room for the latest failed request, in any order: (offset, new offset) of each block moved.

        movable: offsets of blocks that the caller is able to move; of these, only blocks allocated in this step are
        considered. Nothing is moved here. [] if no moves were found that make room.
        """
        stats = self._arena.stats
        young = {at for at, _, born in self._arena.layout() if born >= self._begun and at in movable}
        return window.moves(self._layout(), young, int(stats.wanted), int(stats.size))

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
