"""The budget where the arena has all memory: nothing can be beyond it, but for ops that must not fail."""

from collections.abc import Mapping

import torch

from coopsim.live.arena import window
from coopsim.live.arena.library import Arena


class ArenaCap:
    """As live.cap.Cap, of an arena: it is as large as the budget anyway."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
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

    def offset(self, storage: torch.UntypedStorage) -> int:
        """Of a storage that has memory, in the arena."""
        return storage.data_ptr() - int(self._arena.stats.base)

    def cheapest(self, price: Mapping[int, float]) -> list[int]:
        """Offsets of what to evict for the request that got no room last. price: of what can be, by offset."""
        layout = [(at, nbytes) for at, nbytes, _ in self._arena.layout()]
        stats = self._arena.stats
        return window.cheapest(layout, price, int(stats.wanted), int(stats.size))
