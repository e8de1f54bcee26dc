"""Sends values to the host when memory runs short in a step without a plan, where plans may offload state.

A cell is a storage of the step (cells.py).
"""

import gc
from collections.abc import Collection, Iterator
from functools import cached_property

import torch

from coopsim.live.cells import Cell, Cells
from coopsim.live.residency import Residency
from coopsim.live.victims import Victims
from coopsim.observe import roles


class Sender:
    """The optimizer's state goes first, which no op before the optimizer uses; then what was used longest ago.

    least_bytes: of a cell that is sent. most_bytes: on the host at a time; 0: nothing is sent.
    """

    def __init__(
        self, residency: Residency, victims: Victims, cells: Cells, least_bytes: float, most_bytes: int
    ) -> None:
        self._residency, self._victims, self._cells = residency, victims, cells
        self._least, self._most = least_bytes, most_bytes

    @cached_property
    def _state(self) -> list[torch.Tensor]:
        return _largest_state()

    @cached_property
    def _unsent(self) -> Iterator[torch.Tensor]:
        return iter(self._state)

    def send(self, leave: Collection[Cell]) -> int:
        """Send one cell, none in `leave`, and return its bytes; 0 if there is none that may go.

        State that an op has used in this step, and so was fetched, goes again when there is nothing else.
        """
        if not self._most:
            return 0
        for tensor in self._unsent:
            cell = self._cells.of_tensor(tensor)
            if cell is not None and cell.nbytes >= self._least and cell not in leave and self.sent(cell):
                return cell.nbytes
        cell = self._victims.oldest(leave)
        if cell is not None and self.sent(cell):
            return cell.nbytes
        again = (cell for cell in self._state_there(leave) if cell.nbytes >= self._least)
        return next((cell.nbytes for cell in again if self.sent(cell)), 0)

    def sizes(self, leave: Collection[Cell]) -> dict[Cell, int]:
        """Bytes of each cell that may be sent, however small, to free an address range; none in `leave`."""
        if not self._most:
            return {}
        return {cell: cell.nbytes for cell in (*self._state_there(leave), *self._victims.movable(leave))}

    def _state_there(self, leave: Collection[Cell]) -> Iterator[Cell]:
        """The cells of the optimizers' state that are on the device, the largest first, but those in `leave`."""
        for tensor in self._state:
            cell = self._cells.of_tensor(tensor)
            if cell is not None and cell not in leave and not cell.gone:
                yield cell

    def sent(self, cell: Cell) -> bool:
        """Send a cell. False if it must stay, or the host may hold no more."""
        fits = self._residency.sent_bytes + cell.nbytes <= self._most
        return fits and self._residency.send(cell)


def _largest_state() -> list[torch.Tensor]:
    """The tensors of the optimizers' state, the largest first. No address is read: some may be gone, by a plan left."""
    optimizers = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]
    found = [tensor for one in optimizers for tensor in roles.within(getattr(one, "state", {}))]
    return sorted(found, key=lambda tensor: -tensor.nbytes)
