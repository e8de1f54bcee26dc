"""The memory of the judge: which content lies where."""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from coopsim.study.validate.faults import Reason

Content = tuple[int, int, int]  # iteration, storage, version; -1, op, index for a temporary


@dataclass(slots=True)
class JudgedBlock:
    """Bytes that hold a content, once the op that makes it has run."""

    start: int
    bytes: int
    content: Content
    made: bool


class ValidatedMemory:
    """Blocks by what they hold, and by address; in a counter (`granule` 1) there are no addresses.

    segmented: blocks may lie anywhere, but all of them together must fit into the budget.
    """

    def __init__(self, budget: int, granule: int, segmented: bool, fault: Callable[[Reason, str], None]) -> None:
        self.granule = granule
        self.budget = budget // granule * granule
        self.counter = granule == 1
        self.segmented = segmented
        self.fault = fault
        self.used = 0
        self.where: dict[Content, JudgedBlock] = {}
        self.at: dict[int, JudgedBlock] = {}
        self.starts: list[int] = []

    def put(self, block: JudgedBlock, name: str) -> bool:
        """Let a block lie where it says; False, and a fault, if another lies there."""
        if not self.counter and not self._put_at_address(block, name):
            return False
        if self.counter and block.start != -1:
            self.fault(Reason.OUT_OF_BOUNDS, f"{name} has address {block.start} in a counter, which has none")
        self.used += block.bytes
        if (self.counter or self.segmented) and self.used > self.budget:
            self.fault(Reason.OVER_BUDGET, f"{name} makes {self.used} bytes of {self.budget}")
        self.where[block.content] = block
        return True

    def _put_at_address(self, block: JudgedBlock, name: str) -> bool:
        end = block.start + block.bytes
        if block.start < 0 or (end > self.budget and not self.segmented):
            self.fault(Reason.OUT_OF_BOUNDS, f"{name} lies at {block.start} to {end}, out of {self.budget}")
        if block.start % self.granule:
            self.fault(Reason.MISALIGNED, f"{name} lies at {block.start}, no multiple of {self.granule}")
        k = bisect.bisect_left(self.starts, block.start)
        for other in (self.at[start] for start in self.starts[max(k - 1, 0) : k + 1]):
            if other.start < end and block.start < other.start + other.bytes:
                self.fault(Reason.OVERLAP, f"{name} at {block.start} lies on the bytes of another at {other.start}")
                return False
        self.starts.insert(k, block.start)
        self.at[block.start] = block
        return True

    def find(self, address: int, content: Content, name: str) -> JudgedBlock | None:
        """The block at this address, if it holds this content; a fault if not."""
        block = self.where.get(content) if self.counter else self.at.get(address)
        if block is None:
            self.fault(Reason.DOUBLE_FREE, f"{name} is not in memory" + ("" if self.counter else f" at {address}"))
        elif block.content != content:
            self.fault(Reason.WRONG_CONTENT, f"the bytes at {address} hold another value than {name}")
            block = None
        return block

    def remove(self, block: JudgedBlock) -> None:
        del self.where[block.content]
        self.used -= block.bytes
        if not self.counter:
            del self.at[block.start]
            self.starts.pop(bisect.bisect_left(self.starts, block.start))

    def rewrite(self, block: JudgedBlock, content: Content) -> None:
        """The block holds something else from now on."""
        del self.where[block.content]
        block.content = content
        self.where[content] = block
