"""The memory of the judge: which content lies where."""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from coopsim.validate.faults import Reason

Content = tuple[int, int, int]  # round, storage, version; -1, op, index for a temporary


@dataclass(slots=True)
class Piece:
    """Bytes that hold a content, once the op that makes it has run."""

    start: int
    bytes: int
    content: Content
    made: bool


class Memory:
    """Pieces by what they hold, and by address; in a counter (`granule` 1) there are no addresses.

    segmented: pieces may lie anywhere, but all of them together must fit into the budget.
    """

    def __init__(self, budget: int, granule: int, segmented: bool, fault: Callable[[Reason, str], None]) -> None:
        self.granule = granule
        self.budget = budget // granule * granule
        self.counter = granule == 1
        self.segmented = segmented
        self.fault = fault
        self.used = 0
        self.where: dict[Content, Piece] = {}
        self.at: dict[int, Piece] = {}
        self.starts: list[int] = []

    def put(self, piece: Piece, name: str) -> bool:
        """Let a piece lie where it says; False, and a fault, if another lies there."""
        if not self.counter and not self._put_at_address(piece, name):
            return False
        if self.counter and piece.start != -1:
            self.fault(Reason.OUT_OF_BOUNDS, f"{name} has address {piece.start} in a counter, which has none")
        self.used += piece.bytes
        if (self.counter or self.segmented) and self.used > self.budget:
            self.fault(Reason.OVER_BUDGET, f"{name} makes {self.used} bytes of {self.budget}")
        self.where[piece.content] = piece
        return True

    def _put_at_address(self, piece: Piece, name: str) -> bool:
        end = piece.start + piece.bytes
        if piece.start < 0 or (end > self.budget and not self.segmented):
            self.fault(Reason.OUT_OF_BOUNDS, f"{name} lies at {piece.start} to {end}, out of {self.budget}")
        if piece.start % self.granule:
            self.fault(Reason.MISALIGNED, f"{name} lies at {piece.start}, no multiple of {self.granule}")
        k = bisect.bisect_left(self.starts, piece.start)
        for other in (self.at[start] for start in self.starts[max(k - 1, 0) : k + 1]):
            if other.start < end and piece.start < other.start + other.bytes:
                self.fault(Reason.OVERLAP, f"{name} at {piece.start} lies on the bytes of another at {other.start}")
                return False
        self.starts.insert(k, piece.start)
        self.at[piece.start] = piece
        return True

    def find(self, address: int, content: Content, name: str) -> Piece | None:
        """The piece at this address, if it holds this content; a fault if not."""
        piece = self.where.get(content) if self.counter else self.at.get(address)
        if piece is None:
            self.fault(Reason.DOUBLE_FREE, f"{name} is not in memory" + ("" if self.counter else f" at {address}"))
        elif piece.content != content:
            self.fault(Reason.WRONG_CONTENT, f"the bytes at {address} hold another value than {name}")
            piece = None
        return piece

    def remove(self, piece: Piece) -> None:
        del self.where[piece.content]
        self.used -= piece.bytes
        if not self.counter:
            del self.at[piece.start]
            self.starts.pop(bisect.bisect_left(self.starts, piece.start))

    def rewrite(self, piece: Piece, content: Content) -> None:
        """The piece holds something else from now on."""
        del self.where[piece.content]
        piece.content = content
        self.where[content] = piece
