"""What steps without a plan have sent to ordinary memory of the host, and what stays there from one step to the next."""

import torch

from coopsim.live.cells import Cell, Value


class Sent:
    """Copies of cells without memory on the device, a cell for each. A cell is a storage of a step (cells.py)."""

    def __init__(self) -> None:
        self._copies: dict[Cell, torch.UntypedStorage] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all copies that can be asked for."""
        self._copies = {cell: copied for cell, copied in self._copies.items() if cell.ref() is not None}
        return sum(copied.nbytes() for copied in self._copies.values())

    def has(self, value: Value) -> bool:
        """Whether a value is here."""
        cell, version = value
        return cell in self._copies and cell.version == version

    def add(self, cell: Cell, copied: torch.UntypedStorage) -> None:
        """Keep a copy of a cell that is about to lose its memory."""
        self._copies[cell] = copied

    def take(self, cell: Cell) -> torch.UntypedStorage:
        """Give a cell's copy away, as it is back on the device."""
        return self._copies.pop(cell)

    def begin(self) -> list[Cell]:
        """Begin a step: return new cells for the storages that the step before has left here."""
        found: dict[Cell, torch.UntypedStorage] = {}
        for old, copied in self._copies.items():
            storage = old.ref()
            if storage is not None:
                found[cell := Cell(storage)] = copied
                cell.gone = True
        self._copies = found
        return list(found)

    def clear(self) -> None:
        """Let all copies go."""
        self._copies.clear()
