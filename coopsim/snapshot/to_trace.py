"""A trace of what a memory snapshot knows: sizes, lifetimes, streams and the lines of the program that asked."""

from pathlib import PurePath

from coopsim.snapshot.model import Snapshot
from coopsim.snapshot.place import place
from coopsim.snapshot.rewind import rewind
from coopsim.trace import Trace
from coopsim.trace.build import TraceBuilder
from coopsim.types import Role


def to_trace(snapshot: Snapshot) -> Trace:
    """One op for each request that the history has, with no cost; blocks from before it are there at the start.

    Which storage was computed from which, and how long that took, no snapshot says: `dependencies` in the header is
    `unknown`, and nothing of such a trace can be evicted. What waited for other streams goes when it came back.
    """
    builder = TraceBuilder()
    held: dict[int, int] = {}
    for segment in rewind(snapshot):
        for block in segment.blocks:
            if block.state != "free":
                held[block.address] = builder.storage(block.requested_bytes or block.nbytes, alive_at_start=True)
    for event in snapshot.events:
        if event.action == "alloc":
            held[event.address] = storage = builder.storage(event.nbytes, Role.ACTIVATION)
            builder.op("alloc", creates=[storage], module=place(event.frames), stream=event.stream)
        elif event.action == "free_completed":
            builder.free(held.pop(event.address))
    header = {
        "model": PurePath(snapshot.path).name,
        "source": "torch memory snapshot",
        "dependencies": "unknown",
        "allocator": {"conf": snapshot.conf},
    }
    return builder.build(header)
