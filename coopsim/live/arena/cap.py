"""The budget where the arena has all memory: nothing can be beyond it, but for ops that must not fail."""

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
    """An AllocatorCap (live/cap.py) of an arena, which is as large as the budget anyway."""

    fragments = False  #: what is free is brought side by side
    holds = True

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._begun = int(arena.stats.requests)
        self._grows = False

    def set(self) -> None:
        """No more than was reserved, from now on."""
        self._arena.may_grow(yes=self._grows)

    def higher(self) -> bool:
        """Let the rest of the step take from the GPU what finds no room. False: it does already."""
        if self._grows:
            return False
        self._grows = True
        self.lift()
        return True

    def lift(self) -> None:
        """What finds no room is taken from the GPU, until `set`."""
        self._arena.may_grow(yes=True)

    def end(self) -> None:
        """A step is over."""
        self._grows = False
        self.set()

    def exceeded(self, _limit: int) -> bool:
        """Is there more than was reserved?"""
        return int(self._arena.stats.outside) > 0

    def hole(self, values: Values, victims: Victims, evict: Callable[[Cell], None]) -> Hole:
        """What finds room for a request that got none."""
        return Hole(self, values, victims, evict)

    @property
    def missing(self) -> int:
        """So many bytes more have to be free for the request that got no room last, wherever they are."""
        stats = self._arena.stats
        return int(stats.wanted + stats.allocated - stats.outside - stats.size)

    def offset(self, storage: torch.UntypedStorage) -> int:
        """Of a storage that has memory, in the arena."""
        return storage.data_ptr() - int(self._arena.stats.base)

    def cheapest(self, price: Mapping[int, float]) -> list[int]:
        """Offsets of what to evict for the request that got no room last. price: of what can be, by offset."""
        stats = self._arena.stats
        return window.cheapest(self._layout(), price, int(stats.wanted), int(stats.size))

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        """What to move for that request, and where to, by offset. movable: what can be, if it came in this step."""
        stats = self._arena.stats
        young = {at for at, _, born in self._arena.layout() if born >= self._begun and at in movable}
        return window.moves(self._layout(), young, int(stats.wanted), int(stats.size))

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Inside, the first request goes there."""
        self._arena.put_next(offset)
        try:
            yield
        finally:
            self._arena.put_next(-1)

    def _layout(self) -> list[tuple[int, int]]:
        return [(at, nbytes) for at, nbytes, _ in self._arena.layout()]
