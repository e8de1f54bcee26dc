"""Find temporaries (workspaces): memory that an op allocates and frees before it returns.

While a step is recorded, the caching allocator's own history is on, and each entry is tagged with the number of the op
that was running, or that had run last, on its thread. What an op both allocated and freed is a temporary of it.
"""

from typing import Any

import torch

from coopsim.record.observe import torch_private
from coopsim.record.observe.torch_private import memory_snapshot, record_history, set_memory_metadata

Entry = dict[str, Any]  #: an entry of the allocator's history: action, addr, size in bytes, user_metadata

_AFTER = "+"


class History:
    """The allocator's history between `start` and `stop`; nothing is recorded where this torch cannot tag entries."""

    def __init__(self, *, available: bool = True) -> None:
        self.available = available and torch_private.has("torch.cuda.memory._set_memory_metadata")

    def start(self) -> None:
        """Start to record all requests to the allocator, without stacks, and drop earlier entries."""
        if self.available:
            record_history(enabled="all", context=None, max_entries=2**31)

    def enter(self, op: int) -> None:
        """Tag the entries of this thread that follow: op number `op` is running."""
        if self.available:
            set_memory_metadata(str(op))

    def leave(self, op: int) -> None:
        """Tag the entries of this thread that follow: op number `op` has run, and no other is running."""
        if self.available:
            set_memory_metadata(f"{op}{_AFTER}")

    def stop(self) -> list[Entry]:
        """Stop recording, and return the entries in order; [] where none were recorded."""
        if not self.available:
            return []
        entries: list[Entry] = memory_snapshot()["device_traces"][torch.cuda.current_device()]
        record_history(enabled=None)
        return entries


def inside(entry: Entry) -> int | None:
    """Return the number of the op in which an entry was made; None if it was made between ops."""
    tag: str = entry.get("user_metadata", "")
    return int(tag) if tag.isdecimal() else None


def since(entry: Entry) -> int:
    """Return the number of the op in which, or after which, its thread made an entry; -1 before its first op."""
    tag: str = entry.get("user_metadata", "").removesuffix(_AFTER)
    return int(tag) if tag.isdecimal() else -1


def high_water(entries: list[Entry]) -> dict[int, list[int]]:
    """Return per op, by its number, the bytes of each temporary alive when its temporaries were largest in total.

    `entries` is the history, in order. Ops without temporaries are left out.
    """
    pending: dict[int, tuple[int, int | None]] = {}  # allocations not freed yet: where in `entries`, and by which op
    temporary: set[int] = set()  # entries that allocate one
    for i, entry in enumerate(entries):
        op = inside(entry)
        if entry["action"] == "alloc":
            pending[entry["addr"]] = (i, op)
        elif entry["action"] == "free_requested":
            at, allocated_by = pending.pop(entry["addr"], (-1, None))
            if at >= 0 and op is not None and op == allocated_by:
                temporary.add(at)
    found: dict[int, list[int]] = {}
    live: dict[int, int] = {}
    for i, entry in enumerate(entries):
        op = inside(entry)
        if i in temporary and op is not None:
            live[entry["addr"]] = entry["size"]
            if sum(live.values()) > sum(found.get(op, [])):
                found[op] = list(live.values())
        elif entry["action"] == "free_requested":
            live.pop(entry["addr"], None)
    return found
