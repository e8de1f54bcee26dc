"""The budget where an arena serves all memory: only ops that must not fail can exceed it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import torch

from coopsim.live.arena import window
from coopsim.live.arena.hole import Hole
from coopsim.live.arena.library import Arena
from coopsim.live.cells import Cell
from coopsim.live.values import Values
from coopsim.live.victims import Victims


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
        """Let the rest of the step take from the GPU what finds no room in the arena. False if it does so already."""
        if self._grows:
            return False
        self._grows = True
        self.lift()
        return True

    def lift(self) -> None:
        """Take from the GPU what finds no room in the arena, until `set` is called."""
        self._arena.may_grow(yes=True)

    def end(self) -> None:
        """Let the next step begin within the reservation again."""
        self._grows = False
        self.set()

    def exceeded(self, _limit: int) -> bool:
        """Whether blocks lie outside the reservation."""
        return int(self._arena.stats.outside) > 0

    def hole(self, values: Values, victims: Victims, evict: Callable[[Cell], None]) -> Hole:
        """The strategy that frees an address range for a request that failed."""
        return Hole(self, values, victims, evict)

    @property
    def missing(self) -> int:
        """Bytes that have to be freed, anywhere in the arena, before the latest request that failed can succeed."""
        stats = self._arena.stats
        return int(stats.wanted + stats.allocated - stats.outside - stats.size)

    def offset(self, storage: torch.UntypedStorage) -> int:
        """The offset in the arena of a storage that has memory, in bytes."""
        return storage.data_ptr() - int(self._arena.stats.base)

    def cheapest(self, price: Mapping[int, float]) -> list[int]:
        """Offsets of the blocks whose eviction makes room for the latest failed request, at the least total price.

        price: of each block that can be evicted, by offset.
        """
        stats = self._arena.stats
        return window.cheapest(self._layout(), price, int(stats.wanted), int(stats.size))

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        """Moves that make room for the latest failed request, as (offset, new offset).

        movable: offsets of blocks that can be moved; only those allocated in this step are.
        """
        stats = self._arena.stats
        young = {at for at, _, born in self._arena.layout() if born >= self._begun and at in movable}
        return window.moves(self._layout(), young, int(stats.wanted), int(stats.size))

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Place the first request inside this context at `offset`."""
        self._arena.put_next(offset)
        try:
            yield
        finally:
            self._arena.put_next(-1)

    def _layout(self) -> list[tuple[int, int]]:
        return [(at, nbytes) for at, nbytes, _ in self._arena.layout()]
