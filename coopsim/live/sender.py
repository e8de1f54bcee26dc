"""Sends values to the host when memory runs short in a step without a plan, where plans may offload state.

A cell is a storage of the step (cells.py).
"""

import gc
from collections.abc import Callable, Collection, Iterator

import torch

from coopsim.live.cells import Cell
from coopsim.live.offloaded import Offloaded
from coopsim.live.victims import Victims
from coopsim.observe import roles


class Sender:
    """The optimizer's state goes first, which no op before the optimizer uses; then what was used longest ago.

    cell: the step's cell of a tensor. least_bytes: of a cell that is sent. most_bytes: on the host at a time.
    """

    def __init__(
        self,
        offloaded: Offloaded,
        victims: Victims,
        cell: Callable[[torch.Tensor], Cell | None],
        least_bytes: float,
        most_bytes: int,
    ) -> None:
        self._offloaded, self._victims, self._cell = offloaded, victims, cell
        self._least, self._most = least_bytes, most_bytes
        self._state: Iterator[torch.Tensor] | None = None  # not looked for yet

    def send(self, leave: Collection[Cell]) -> int:
        """Send one cell, none in `leave`, and return its bytes; 0 if there is none that may go.

        Of the state, each goes once in a step.
        """
        if not self._most:
            return 0
        if self._state is None:
            self._state = iter(_largest_state())
        for tensor in self._state:
            cell = self._cell(tensor)
            if cell is not None and cell.nbytes >= self._least and cell not in leave and self._sent(cell):
                return cell.nbytes
        cell = self._victims.oldest(leave)
        return cell.nbytes if cell is not None and self._sent(cell) else 0

    def _sent(self, cell: Cell) -> bool:
        fits = self._offloaded.sent_bytes + cell.nbytes <= self._most
        return fits and self._offloaded.send(cell)


def _largest_state() -> list[torch.Tensor]:
    """The tensors of the optimizers' state, the largest first. No address is read: some may be gone, by a plan left."""
    optimizers = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]
    found = [tensor for one in optimizers for tensor in roles.within(getattr(one, "state", {}))]
    return sorted(found, key=lambda tensor: -tensor.nbytes)
