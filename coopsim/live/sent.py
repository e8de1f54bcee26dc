"""What is on the host without a plan: sent there by a step that has none, or left there by the step before."""

from coopsim.live.cells import Cell, Value
from coopsim.live.host_area import HostBytes


class Sent:
    """Copies of cells without memory on the device, a cell for each. A cell is a storage of a step (cells.py)."""

    def __init__(self) -> None:
        self._copies: dict[Cell, HostBytes] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all copies that can be asked for."""
        self._copies = {cell: copied for cell, copied in self._copies.items() if cell.ref() is not None}
        return sum(copied.nbytes for copied in self._copies.values())

    @property
    def cells(self) -> list[Cell]:
        """All cells that have a copy here."""
        return list(self._copies)

    def has(self, value: Value) -> bool:
        """Whether a value is here."""
        cell, version = value
        return cell in self._copies and cell.version == version

    def add(self, cell: Cell, copied: HostBytes) -> None:
        """Keep a copy of a cell that is on the host only, or will be at once."""
        self._copies[cell] = copied

    def take(self, cell: Cell) -> HostBytes:
        """Give a cell's copy away."""
        return self._copies.pop(cell)

    def begin(self) -> list[Cell]:
        """Begin a step: return new cells for the storages that the step before has left here."""
        found: dict[Cell, HostBytes] = {}
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
