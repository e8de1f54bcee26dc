"""Frees an address range in the arena for a request that failed: evicts until enough is free, then joins that.

A cell is a storage of the running step (cells.py), and its memory a block of the arena.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import torch

from coopsim.live.cells import Cell
from coopsim.live.values import Values
from coopsim.live.victims import Victims

if TYPE_CHECKING:
    from coopsim.live.arena.cap import ArenaCap


class Hole:
    """Makes holes during one step. evict: evicts a cell. planned: the cells of a step that follows a plan."""

    def __init__(self, cap: "ArenaCap", values: Values, victims: Victims, evict: Callable[[Cell], None]) -> None:
        self._cap, self._values, self._victims, self._evict = cap, values, victims, evict
        self.planned: Callable[[], Iterable[Cell]] = tuple

    def made(self, leave: Collection[Cell]) -> bool:
        """Evict or move blocks so that the latest failed request can be tried again. False if nothing can be done.

        It may fail again. leave: cells that must not be evicted.
        """
        cap = self._cap
        while cap.missing > 0 and (victim := self._victims.best(leave)) is not None:
            self._evict(victim)
        if cap.missing <= 0 and self._move():
            return True
        for one in (victims := self._side_by_side(leave)):
            self._evict(one)
        if victims:
            return True
        if (victim := self._victims.best(leave)) is not None:
            self._evict(victim)
            return True
        return False

    def _move(self) -> bool:
        """Move blocks that this step has made, so that the request finds room. False if that is not enough."""
        cells = {}
        here = {torch.cuda.current_stream()} if self._values.streams is not None else set()
        for cell in (*self._victims.made, *self.planned()):
            storage = cell.ref()
            if storage is not None and not cell.gone and cell.streams <= here and not self._values.must_stay(cell):
                cells[self._cap.offset(storage)] = storage
        moves = self._cap.moves(set(cells))
        for at, to in moves:
            with self._cap.at(to):
                self._values.move(cells[at])
        return bool(moves)

    def _side_by_side(self, leave: Collection[Cell]) -> list[Cell]:
        """The adjacent cells whose eviction makes room for the request, at the least cost."""
        prices = self._victims.prices(leave)
        cells = {self._cap.offset(storage): cell for cell in prices if (storage := cell.ref()) is not None}
        return [cells[at] for at in self._cap.cheapest({at: prices[cell] for at, cell in cells.items()})]
