"""Frees an address range in the arena for a request that failed: evicts until enough is free, then joins that.

A tracked storage is one of the step (tracked.py), and its memory a block of the arena.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from coopsim.live.residency import Residency
from coopsim.live.tracked import TrackedStorage, TrackedStorages
from coopsim.live.victims import Victims

_MOVES = 8  #: times that blocks are moved for one op, whose requests may take each other's holes


@dataclass(frozen=True)
class Ways:
    """How a step loses values.

    evict: evicts a tracked storage. release: frees a value of ours (Roots.release). planned: the tracked storages of a
    step that follows a plan.
    """

    residency: Residency
    storages: TrackedStorages
    victims: Victims
    evict: Callable[[TrackedStorage], None]
    release: Callable[[Collection[TrackedStorage]], int]
    planned: Callable[[], Iterable[TrackedStorage]]


class Blocks(Protocol):
    """The blocks of an arena, by offset, and the latest request that failed (arena/cap.py)."""

    @property
    def missing(self) -> int:
        """Bytes to be freed before that request can succeed."""

    def offset(self, storage: torch.UntypedStorage) -> int:
        """Where the memory of a storage lies."""

    def cheapest(self, price: Mapping[int, float]) -> list[int]:
        """Adjacent blocks whose eviction makes room for the request, at the least total price; [] if there are none."""

    def moves(self, movable: Collection[int]) -> list[tuple[int, int]]:
        """From where to where to move which of these blocks to make room for the request; [] if that is not enough."""

    def at(self, offset: int) -> AbstractContextManager[None]:
        """Within the context, place the first request at `offset`."""


class Hole:
    """Makes holes during one step."""

    def __init__(self, cap: Blocks, ways: Ways) -> None:
        self._cap, self._residency, self._storages, self._victims = cap, ways.residency, ways.storages, ways.victims
        self._evict, self._release = ways.evict, ways.release
        self._planned = ways.planned

    def made(self, protected: Collection[TrackedStorage], tries: int) -> bool:
        """Evict or move blocks so that the latest failed request can be tried again. False if nothing can be done.

        It may fail again. protected: tracked storages that must not be evicted. tries: how often the op has run out of
        memory before.
        """
        while self._cap.missing > 0 and self._freed(protected):
            pass
        if self._cap.missing <= 0 and tries < _MOVES and self._move():
            return True
        return self._evicted(protected) or self._freed(protected)

    def _freed(self, protected: Collection[TrackedStorage]) -> bool:
        """Free a value of ours, or evict something. False if there is nothing."""
        if self._release(protected):
            return True
        victim = self._victims.best(protected)
        if victim is not None:
            self._evict(victim)
        return victim is not None

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
        here = {torch.cuda.current_stream()} if self._residency.streams is not None else set()
        return {
            self._cap.offset(storage): storage
            for tracked in (*self._storages.made, *self._planned())
            if (storage := tracked.ref()) is not None and not tracked.evicted
            if tracked.streams <= here and not self._residency.must_stay(tracked)
        }

    def _evicted(self, protected: Collection[TrackedStorage]) -> bool:
        """Evict adjacent storages whose place is enough for the request, at the least cost. False if there are none."""
        victims = self._side_by_side(self._victims.prices(protected))
        for tracked in victims:
            self._evict(tracked)
        return bool(victims)

    def _side_by_side(self, price: Mapping[TrackedStorage, float]) -> list[TrackedStorage]:
        """The adjacent tracked storages, of those with a price, that make room for the request for the least of it."""
        storages = {self._cap.offset(storage): tracked for tracked in price if (storage := tracked.ref()) is not None}
        return [storages[at] for at in self._cap.cheapest({at: price[tracked] for at, tracked in storages.items()})]
