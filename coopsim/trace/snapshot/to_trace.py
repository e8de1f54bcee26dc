"""Make a trace of a memory snapshot: sizes, lifetimes, streams, and the program's lines that requested memory."""

from collections.abc import Collection
from pathlib import PurePath
from typing import Any

from coopsim.base.types import Role
from coopsim.trace import Trace
from coopsim.trace.build import EMPTY_CACHE, TraceBuilder
from coopsim.trace.snapshot.model import DEFAULT, Snapshot
from coopsim.trace.snapshot.place import place
from coopsim.trace.snapshot.rewind import rewind


def to_trace(snapshot: Snapshot, emptied: Collection[int] = ()) -> Trace:
    """Return a trace with one op, of no cost, per allocation in the history; earlier blocks are there at the start.

    emptied: indices of the events at which the program called empty_cache, which becomes an op, too.

    A snapshot does not say which storage was computed from which, nor how long that took: `dependencies` in the header
    is `unknown`, and nothing of such a trace can be evicted. Memory that waits for other streams is freed when it is
    returned. The segments at the start are in the header as in a recorded trace (docs/capture.md), with their
    streams, if cudaMalloc made them all and none is of a private pool.
    """
    builder = TraceBuilder()
    held: dict[int, int] = {}
    start = rewind(snapshot)
    for segment in start:
        for block in segment.blocks:
            if block.state != "free":
                held[block.address] = builder.storage(block.requested_bytes or block.nbytes, alive_at_start=True)
    layout = [(s.nbytes, [(b.nbytes, held.get(b.address, -1)) for b in s.blocks]) for s in start]
    streams = [s.stream for s in start]
    for at, event in enumerate(snapshot.events):
        if at in emptied:
            builder.op(EMPTY_CACHE)
        elif event.action == "alloc":
            held[event.address] = storage = builder.storage(event.nbytes, Role.ACTIVATION)
            builder.op("alloc", creates=[storage], module=place(event.frames), stream=event.stream)
        elif event.action == "free_completed":
            builder.free(held.pop(event.address))
    header: dict[str, Any] = {
        "model": PurePath(snapshot.path).name,
        "source": "torch memory snapshot",
        "dependencies": "unknown",
        "allocator": {"conf": snapshot.conf},
    }
    if not any(s.expandable or s.pool != DEFAULT for s in start):
        header |= {"memory_at_start": layout, "streams_at_start": streams}
    return builder.build(header)
