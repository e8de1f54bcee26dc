"""A plan for an iteration of a trace: what leaves memory in which idle intervals, what goes where, what is copied.

An *idle interval* of a value is the time from when it is made, or from one of its uses, to its next use (or to its
end). The one after the first k uses of value v has the number v + V[v, USES] + k. A value is in memory throughout it
(STAY), is dropped as it begins and stays dropped until the next use (LEAVE), or is dropped and stays from when a
recomputation of others needs it (LEAVE_ONCE).
"""

from dataclasses import dataclass
from typing import Any

from coopsim.kernel import state as s

STAY, LEAVE, LEAVE_ONCE = range(3)
REQUEST_VALUE, REQUEST_ADDRESS = range(2)


@dataclass(frozen=True)
class Plan:
    """Decisions for all idle intervals, and for each request of the iteration, in order, its value and address."""

    decisions: Any
    until: s.Array
    requests: s.Array
    away: s.Array  # its copies, in order (kernel/state.py)
    cost: int  # decision cost of the recomputations of the iteration
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them

    def __post_init__(self) -> None:
        for array in (self.decisions, self.until, self.requests, self.away):
            array.setflags(write=False)
