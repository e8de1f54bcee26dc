"""Where values are: in an arena with addresses, or as bytes that are counted."""

from typing import Any

from coopsim.base.types import Placement, SmallArea
from tests.reference.values import Value

SMALL_AREA, SMALL = 10 << 20, 10 << 10  # bytes; for requests of up to so many


class Arena:
    """One region as a list of blocks [start, bytes, value or None] in address order; free neighbours never touch."""

    def __init__(self, budget: int, placement: Placement, small_area: SmallArea = SmallArea.OFF) -> None:
        self.budget = budget
        self.border: int | None = budget - SMALL_AREA if small_area == SmallArea.TOP else None
        self.blocks: list[list[Any]] = [[0, budget, None]] if budget else []
        self.placement = placement

    def allocate(self, value: Value, cheap: bool, preferred: int | None = None, highest: bool = False) -> bool:
        holes = [(n, start) for start, n, held in self.blocks if held is None and n >= value.bytes]
        high = cheap and self.placement != Placement.LOW
        if self.border is not None:
            places = [self.beside_small_area(value.bytes, n, start, high, self.border) for n, start in sorted(holes)]
            place = next((p for p in places if p is not None), None)
            return place is not None and self.allocate_at(value, place)
        if not holes:
            return False
        n, start = min(holes)
        if preferred is not None:
            places = [min(max(preferred, start), start + n - value.bytes) for n, start in holes]
            return self.allocate_at(value, min(places, key=lambda place: (abs(place - preferred), place)))
        if highest:
            n, start = max(holes, key=lambda hole: hole[1])
            high = True
        i = self.blocks.index([start, n, None])
        used, rest = value.bytes, n - value.bytes
        if high:
            self.blocks[i : i + 1] = [[start, rest, None], [start + rest, used, value]]
        else:
            self.blocks[i : i + 1] = [[start, used, value], [start + used, rest, None]]
        self.blocks = [p for p in self.blocks if p[1]]
        return True

    def beside_small_area(self, nbytes: int, n: int, start: int, high: bool, border: int) -> int | None:
        """Where in this hole, if at all: a hole may lie across the border, and what is placed there, too."""
        end = start + n
        if nbytes <= SMALL:
            if end <= border:
                return None
            if start < border and border + nbytes < end:
                return border
            return start if start + nbytes // 2 > border else None
        if start >= border:
            return None
        if not high:
            return start
        if end > border and border - nbytes > start:
            return border - nbytes
        return end - nbytes if end - nbytes // 2 < border else None

    def searched(self) -> list[list[Any]]:
        """The blocks that a search looks at."""
        return [b for b in self.blocks if self.border is None or b[0] < self.border]

    def allocate_at(self, value: Value, address: int) -> bool:
        for i, (start, n, held) in enumerate(self.blocks):
            if held is None and start <= address and address + value.bytes <= start + n:
                end = address + value.bytes
                parts = [[start, address - start, None], [address, value.bytes, value], [end, start + n - end, None]]
                self.blocks[i : i + 1] = [p for p in parts if p[1]]  # type: ignore[operator]
                return True
        return False

    def free(self, value: Value) -> None:
        self.blocks[self.index(value)][2] = None
        merged: list[list[Any]] = []
        for block in self.blocks:
            if merged and merged[-1][2] is None and block[2] is None:
                merged[-1][1] += block[1]
            else:
                merged.append(block)
        self.blocks = merged

    def index(self, value: Value) -> int:
        return next(i for i, (_, _, held) in enumerate(self.blocks) if held is value)

    def address(self, value: Value) -> int:
        return int(self.blocks[self.index(value)][0])

    def replace(self, successor: dict[Value, Value]) -> None:
        for block in self.blocks:
            block[2] = successor.get(block[2], block[2])

    def in_order(self) -> list[Value]:
        return [held for _, _, held in self.searched() if held is not None]

    def hole_left_by(self, value: Value) -> int:
        i = self.index(value)
        around = [p[1] for p in self.blocks[max(i - 1, 0) : i + 2] if p[2] is None]
        return value.bytes + sum(around)


class Counter:
    """Bytes without addresses. The order is that of allocation."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held: list[Value] = []

    def allocate(self, value: Value, cheap: bool, preferred: Any = None, highest: bool = False) -> bool:  # noqa: ARG002
        if sum(v.bytes for v in self.held) + value.bytes > self.budget:
            return False
        self.held.append(value)
        return True

    def free(self, value: Value) -> None:
        self.held.remove(value)

    def address(self, value: Value) -> int:  # noqa: ARG002
        return -1

    def replace(self, successor: dict[Value, Value]) -> None:
        self.held = [successor.get(v, v) for v in self.held]

    def in_order(self) -> list[Value]:
        return self.held

    def hole_left_by(self, value: Value) -> int:
        return value.bytes
