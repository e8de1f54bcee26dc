"""The budget as the cap on an arena, and what makes a hole there for a request that failed.

Offsets are in bytes from the arena's start. The latest failed request is the one that found no room most recently.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from coopsim.live.arena.library import FAILS, GROWS, RAISES, Arena
from coopsim.live.spilled import Spilled
from coopsim.live.tracked import TrackedStorage

Layout = Sequence[tuple[int, int]]  #: (offset, bytes) of each block, by ascending offset


def cheapest(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> list[int]:
    """Offsets of adjacent blocks that, with the gaps around them, span `nbytes` bytes, at the least total price.

    size: of the arena, in bytes. price: by offset, of the blocks that can be evicted. Empty: there are none.
    """
    _, start, end = min(_windows(layout, price, nbytes, size), default=(0.0, 0, 0))
    return [offset for offset, _ in layout[start:end]]


def _windows(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> Iterator[tuple[float, int, int]]:
    """All minimal ranges of such blocks: total price, and the numbers of those blocks, from and to."""
    start, low, cost = 0, 0, 0.0
    for k, (offset, length) in enumerate(layout):
        if offset not in price:
            start, low, cost = k + 1, offset + length, 0.0
            continue
        cost += price[offset]
        high = layout[k + 1][0] if k + 1 < len(layout) else size
        while start < k and high - sum(layout[start]) >= nbytes:
            cost -= price[layout[start][0]]
            low = sum(layout[start])
            start += 1
        if high - low >= nbytes:
            yield cost, start, k + 1


class ArenaCap:
    """The budget as a cap on an arena of that size. Only ops that must not fail can exceed it.

    holds: whether an op that runs out of memory does so because of the cap.
    """

    holds = True

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
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

    def make_hole(self, sending: Spilled, protected: Collection[TrackedStorage]) -> bool:
        """Send values to the host so that the latest failed request can be tried again. False if none can go.

        What was used longest ago goes until enough is free; then adjacent values, the fewest bytes that make a hole for
        the request. It may fail again. protected: tracked storages that must not go.
        """
        stats = self._arena.stats
        missing = int(stats.wanted + stats.allocated - stats.outside - stats.size)
        if missing > 0:
            return sending.send(missing, protected) > 0
        there = {address - int(stats.base): value for address, value in sending.by_address(protected).items()}
        layout = [(offset, nbytes) for offset, nbytes, _ in self._arena.layout()]
        prices = {offset: tracked.nbytes for offset, (tracked, _) in there.items()}
        adjacent = cheapest(layout, prices, int(stats.wanted), int(stats.size))
        return sum(sending.sent(there[offset]) for offset in adjacent) > 0 or sending.send(1, protected) > 0
