"""What a step has made that can be evicted, and at what price: made again at the least cost, per byte and staleness."""

from collections.abc import Collection, Iterator

from coopsim.live.cells import Call, Cell, Value
from coopsim.live.values import Values
from coopsim.types import Role

_ANCESTORS = 32  #: evicted values that a score looks back at, at most
_FAR = 8  #: times the cost of those that were looked at: what more than these would have to be made for


class Victims:
    """made: by the step so far. now: ops that it has had. ends: what the op that runs changes, and nothing can make.

    least_bytes: smaller ones are evicted only where addresses count.
    """

    def __init__(self, values: Values, least_bytes: float) -> None:
        self._values, self._least_bytes = values, least_bytes
        self.made: list[Cell] = []
        self.now = 0
        self.ends: set[Value] = set()

    def best(self, leave: Collection[Cell]) -> Cell | None:
        """The cheapest per byte, beside those to leave; None: there is none."""
        best, least = None, float("inf")
        for cell in self._evictable(leave, self._least_bytes):
            score = self._cost(cell) / (cell.nbytes * (self.now - cell.touched + 1))
            if score < least and self._can_be_made(cell):
                best, least = cell, score
        return best

    def prices(self, leave: Collection[Cell]) -> dict[Cell, float]:
        """Of all that can be evicted."""
        found = [cell for cell in self._evictable(leave, 0) if self._can_be_made(cell)]
        return {cell: self._cost(cell) / (self.now - cell.touched + 1) for cell in found}

    def roots(self, cell: Cell) -> list[Value]:
        """What it is made from in the end, and nothing in the step makes."""
        found: list[Value] = []
        seen: set[Value] = set()
        stack: list[Value] = [(cell, cell.version)]
        while stack:
            value = stack.pop()
            if value not in seen:
                seen.add(value)
                call = value[0].makers.get(value[1])
                if call is None:
                    found.append(value)
                else:
                    stack += call.reads
        return found

    def hang_on_ends(self) -> list[Value]:
        """What was evicted and cannot be made once the op that runs has changed what it changes."""
        if not self.ends:
            return []
        found = []
        for cell in self._values.gone.values():
            if cell.ref() is not None:
                seen: set[Value] = set()
                stack: list[Value] = [(cell, cell.version)]
                while stack:
                    value = stack.pop()
                    if value in self.ends:
                        found.append((cell, cell.version))
                        break
                    if value not in seen and value[1] in value[0].makers:
                        seen.add(value)
                        stack += value[0].makers[value[1]].reads
        return found

    def _evictable(self, leave: Collection[Cell], small: float) -> Iterator[Cell]:
        """What may be taken, if it can be made again, and has so many bytes at least."""
        self.made = [cell for cell in self.made if cell.ref() is not None]
        for cell in self.made:
            if cell.gone or cell in leave or cell.nbytes < small or cell.version in cell.held:
                continue
            if self._values.must_stay(cell):
                continue
            if self._values.ledger.role(cell.key) is Role.GRADIENT:
                continue  # it would take the activations of its layer, which may be gone, too
            yield cell

    def _cost(self, cell: Cell) -> int:
        """Of making it again, with what was evicted of what it is made from."""
        calls: dict[Call, None] = {}
        stack: list[Value] = [(cell, cell.version)]
        while stack and len(calls) < _ANCESTORS:
            value = stack.pop()
            call = value[0].makers.get(value[1])
            if call is not None and call not in calls:
                calls[call] = None
                stack += [read for read in call.reads if self._values.memory_of(read) is None]
        return sum(call.cost for call in calls) * (_FAR if stack else 1)

    def _can_be_made(self, cell: Cell) -> bool:
        """Is all there still that it is made from, back to what was there at the start, and will it be?"""
        return all(self._values.memory_of(root) is not None and root not in self.ends for root in self.roots(cell))
