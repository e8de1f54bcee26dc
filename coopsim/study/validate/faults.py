"""What can be wrong with a schedule."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """What can be wrong with a schedule."""

    BAD_HEADER = "bad_header"  #: of another trace, or with a budget, allocator or outcome that cannot be
    OUT_OF_BOUNDS = "out_of_bounds"  #: a block reaches out of the budget
    OVERLAP = "overlap"  #: a block lies on another
    MISALIGNED = "misaligned"  #: an address is no multiple of the granule
    OVER_BUDGET = "over_budget"  #: resident bytes exceed the budget (counter)
    WRONG_SIZE = "wrong_size"  #: a block has other bytes than its value, rounded up to the granule
    UNKNOWN_VALUE = "unknown_value"  #: the trace has no such value at this point
    WRONG_CONTENT = "wrong_content"  #: the bytes at this address hold another value than the row says
    ALLOCATED_TWICE = "allocated_twice"  #: the value is resident already
    NO_ROOM = "no_room"  #: an op runs, but an output or a temporary has no bytes
    UNUSED = "unused"  #: bytes were allocated for a value that the next op does not make
    MISSING_INPUT = "missing_input"  #: an op runs, but an input is not in memory
    STALE_VERSION = "stale_version"  #: an op runs, but of an input only another version, or a half-made one, is there
    WRONG_ORDER = "wrong_order"  #: ops do not follow the program, or one is recomputed that has not run
    COLLECTIVE = "collective"  #: a collective is run again, for which the other ranks are not there
    DOUBLE_FREE = "double_free"  #: a value is dropped that is not there
    HALF_MADE = "half_made"  #: a value is dropped between its allocation and the op that makes it
    NOT_EVICTABLE = (
        "not_evictable"  #: evicted though nothing makes it, it is a parameter or the like, or the next step needs it
    )
    TOO_EARLY = "too_early"  #: freed or released while the program still holds it
    LEAK = "leak"  #: left in memory, or on the host, at the end of an iteration (of its op, for a temporary)
    NOT_HANDED_ON = "not_handed_on"  #: the next iteration does not find a value that this one leaves it
    COPIED_TWICE = "copied_twice"  #: a value is offloaded of which the host has a copy
    NOT_ON_HOST = "not_on_host"  #: a value is fetched, or its copy discarded, but the host has none
    STALE_COPY = "stale_copy"  #: a value is fetched, but the host's copy is of another version
    HALF_COPIED = "half_copied"  #: a value is fetched before its copy to the host has ended
    NOT_OFFLOADABLE = "not_offloadable"  #: a temporary is offloaded; or parameters and the like are, without the switch
    OVER_HOST_MEMORY = "over_host_memory"  #: copies exceed the host's memory
    ONLY_COPY = (
        "only_copy"  #: the host's copy goes of a value that nothing makes again, and that the program still holds
    )
    WRONG_TIME = "wrong_time"  #: the clock is not the cost of the ops run so far and what they waited for copies
    UNFINISHED = "unfinished"  #: it says ok, but ops are missing


@dataclass(frozen=True)
class Fault:
    """What is wrong, and at which row (-1: in the header; the number of rows: at the end)."""

    reason: Reason
    seq: int
    message: str

    def __str__(self) -> str:
        return f"row {self.seq}: {self.reason}: {self.message}"
