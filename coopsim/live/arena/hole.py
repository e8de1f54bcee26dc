"""The cap on an arena, and what frees an address range there for a request that failed.

Values go to the host until enough is free, then blocks are moved until that is contiguous. Only ops that must not fail
can exceed the budget. A tracked storage is one of the step (tracked.py), and its memory a block of the arena. Offsets
are in bytes from the arena's start; its latest failed request is the one that found no room most recently.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch

from coopsim.live.arena.library import FAILS, GROWS, RAISES, Arena
from coopsim.live.residency import Residency
from coopsim.live.spilled import Spilled
from coopsim.live.tracked import TrackedStorage, TrackedStorages

_MOVES = 8  #: times that blocks are moved for one op, whose requests may take each other's holes
_WINDOWS = 32  #: ranges that are tried, the cheapest first, until the blocks of one fit elsewhere

Layout = Sequence[tuple[int, int]]  #: (offset, bytes) of each block, by ascending offset
_Window = tuple[float, int, int]  # cost of what lies in it, and the numbers of those blocks: from, to


def cheapest(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> list[int]:
    """Offsets of adjacent blocks that, with the gaps around them, span `nbytes` bytes, at the least total price.

    size: of the arena, in bytes. price: by offset, of the blocks that can be evicted. Empty: there are none.
    """
    _, start, end = min(_windows(layout, price, nbytes, size), default=(0.0, 0, 0))
    return [offset for offset, _ in layout[start:end]]


def moves(layout: Layout, movable: Collection[int], nbytes: int, size: int) -> list[tuple[int, int]]:
    """Moves (offset, new offset) that make a gap of `nbytes`, for few bytes moved.

    movable: offsets of the blocks that may be moved. size: of the arena, in bytes. Empty if no such moves were found.
    """
    price = {offset: float(length) for offset, length in layout if offset in movable}
    gaps = list(_gaps(layout, size))
    for _, start, end in sorted(_windows(layout, price, nbytes, size))[:_WINDOWS]:
        low, high = layout[start][0], layout[end - 1][0]
        room = sorted((n, at) for at, n in gaps if not _beside(at, n, low, high, layout[end - 1][1]))
        if (found := _fit(layout[start:end], room)) is not None:
            return found
    return []


def _windows(layout: Layout, price: Mapping[int, float], nbytes: int, size: int) -> Iterator[_Window]:
    """All minimal ranges of blocks with a price that span `nbytes` once they are empty."""
    start, low, cost = 0, 0, 0.0
    for k, (offset, length) in enumerate(layout):
        if offset not in price:
            start, low, cost = k + 1, offset + length, 0.0
            continue
        cost += price[offset]
        high = layout[k + 1][0] if k + 1 < len(layout) else size
        while start < k and high - (layout[start][0] + layout[start][1]) >= nbytes:
            cost -= price[layout[start][0]]
            low = layout[start][0] + layout[start][1]
            start += 1
        if high - low >= nbytes:
            yield cost, start, k + 1


def _gaps(layout: Layout, size: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of each gap."""
    for (at, length), (after, _) in pairwise([(0, 0), *layout, (size, 0)]):
        if after > at + length:
            yield at + length, after - at - length


def _beside(at: int, nbytes: int, low: int, high: int, length: int) -> bool:
    """Whether a gap touches the range from the block at `low` to the one at `high`, which has `length` bytes."""
    return at + nbytes >= low and at <= high + length


def _fit(blocks: Layout, room: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Move each block, the largest first, into the gap that it fits best; None if one fits nowhere.

    room: (bytes, offset) of the gaps, sorted; it is used up.
    """
    found = []
    for offset, length in sorted(blocks, key=lambda block: -block[1]):
        i = bisect_left(room, (length, 0))
        if i == len(room):
            return None
        n, at = room.pop(i)
        found.append((offset, at))
        if n > length:
            insort(room, (n - length, at + length))
    return found


class ArenaCap:
    """The budget as a cap on an arena of that size, whose blocks are moved until what is free is contiguous (cap.py).

    holds: whether an op that runs out of memory does so because of the cap.
    """

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


class Hole:
    """Makes holes during one step.

    sending: what sends values to the host, None while none may go. planned: the tracked storages of a step that follows
    a plan.
    """

    def __init__(
        self,
        cap: ArenaCap,
        residency: Residency,
        storages: TrackedStorages,
        sending: Callable[[], Spilled | None],
        planned: Callable[[], Iterable[TrackedStorage]],
    ) -> None:
        self._cap, self._residency, self._storages = cap, residency, storages
        self._sending, self._planned = sending, planned

    def made(self, protected: Collection[TrackedStorage], tries: int) -> bool:
        """Send or move blocks so that the latest failed request can be tried again. False if nothing can be done.

        It may fail again. protected: tracked storages that must not go. tries: how often the op has run out of memory
        before.
        """
        sending = self._sending()
        if self._cap.missing > 0 and sending is not None:
            sending.send(self._cap.missing, protected)
        if self._cap.missing <= 0 and tries < _MOVES and self._move():
            return True
        return sending is not None and (self._side_by_side(sending, protected) or sending.send(1, protected) > 0)

    def _move(self) -> bool:
        """Move blocks that this step has made, so that the request finds room. False if that is not enough."""
        movable = self._movable()
        moves = self._cap.moves(set(movable))
        for at, to in moves:
            with self._cap.at(to):
                self._residency.move(movable[at])
        return bool(moves)

    def _movable(self) -> dict[int, torch.UntypedStorage]:
        """What this step has made, and nobody needs the address of, by offset."""
        streams = self._residency.streams
        here = {streams.current()} if streams is not None else set()
        return {
            self._cap.offset(storage): storage
            for tracked in (*self._storages.there(), *self._planned())
            if (storage := tracked.ref()) is not None and not tracked.evicted
            if tracked.streams <= here and not self._residency.must_stay(tracked)
        }

    def _side_by_side(self, sending: Spilled, protected: Collection[TrackedStorage]) -> bool:
        """Send adjacent storages whose place is enough for the request, with the fewest bytes. False if none went."""
        memory = self._residency.memory_of
        there = {self._cap.offset(s): v for v in sending.candidates(protected) if (s := memory(v)) is not None}
        adjacent = self._cap.cheapest({at: tracked.nbytes for at, (tracked, _) in there.items()})
        return sum(sending.sent(there[at]) for at in adjacent) > 0
