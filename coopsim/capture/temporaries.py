"""Workspaces: memory that an op takes and gives back inside, which only the allocator sees.

The caching allocator's own history is on while a step is recorded, and every entry carries the number of the op that
was running. What an op both allocated and freed is a temporary of it.
"""

from typing import Any

import torch


class History:
    """The allocator's history, between `start` and `temporaries`. Off where this torch cannot tag its entries."""

    def __init__(self) -> None:
        self.available = hasattr(torch.cuda.memory, "_set_memory_metadata")

    def start(self) -> None:
        """Begin, and forget what was."""
        if self.available:
            torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2**31)

    def tag(self, op: int | None) -> None:
        """From here on this op runs on this thread; None: between ops."""
        if self.available:
            torch.cuda.memory._set_memory_metadata("" if op is None else str(op))

    def temporaries(self) -> dict[int, list[int]]:
        """By op: the bytes of those temporaries that were alive together when they were at their most; ends it all."""
        if not self.available:
            return {}
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        torch.cuda.memory._record_memory_history(enabled=None)
        return high_water(events)


def high_water(events: list[dict[str, Any]]) -> dict[int, list[int]]:
    """The same from entries of the allocator's history: action, addr, size, user_metadata."""
    pending: dict[int, tuple[int, str]] = {}  # allocations not freed yet: where in `events`, and by which op
    inside: set[int] = set()  # entries that allocate a temporary
    for i, event in enumerate(events):
        op = event.get("user_metadata", "")
        if event["action"] == "alloc":
            pending[event["addr"]] = (i, op)
        elif event["action"] == "free_requested":
            at, allocated_by = pending.pop(event["addr"], (-1, ""))
            if at >= 0 and op and op == allocated_by:
                inside.add(at)
    found: dict[int, list[int]] = {}
    live: dict[int, int] = {}
    for i, event in enumerate(events):
        if i in inside:
            live[event["addr"]] = event["size"]
            op = int(event["user_metadata"])
            if sum(live.values()) > sum(found.get(op, [])):
                found[op] = list(live.values())
        elif event["action"] == "free_requested":
            live.pop(event["addr"], None)
    return found
