"""What can be said of a trace without replaying it."""

from collections import Counter
from typing import Any

import numpy as np

from coopsim.base.types import GRANULE, Phase
from coopsim.trace.alive import bytes_by_role, live_bytes, live_bytes_by_role, peak_bytes, round_up
from coopsim.trace.table import Trace

__all__ = [
    "bytes_at_peak",
    "bytes_by_role",
    "info",
    "live_bytes",
    "live_bytes_by_role",
    "peak_bytes",
    "round_up",
    "saved_for_backward",
]


def bytes_at_peak(trace: Trace) -> dict[str, int]:
    """What is alive when the most is (as in `live_bytes`), by role; the op's own temporaries count as `temporary`."""
    op = int(live_bytes(trace).argmax())
    return {role: int(alive[op]) for role, alive in live_bytes_by_role(trace).items() if alive[op]}


def info(trace: Trace) -> dict[str, Any]:
    """A trace in figures: ops, storages, bytes by role (made or there before), peak without eviction, base cost."""
    at_start = trace.alive_at_start
    return {
        "trace": trace.label,
        "content_hash": trace.content_hash,
        "steps": trace.n_steps,
        "ops": trace.n_ops,
        "ops_by_phase": dict(Counter(trace.phase)),
        "storages": trace.n_storages,
        "bytes_by_role": bytes_by_role(trace),
        "bytes_at_start": int(trace.bytes[at_start].sum()),
        "peak_bytes": peak_bytes(trace),
        "peak_bytes_rounded": peak_bytes(trace, GRANULE),
        "base_cost_ns": int(trace.cost_ns.sum()),
        "flops": int(trace.flops.sum()),
        "random_ops": int(trace.random.sum()),
        "collectives": int((trace.peers > 0).sum()),
        "collective_bytes": int(trace.bytes_moved[trace.peers > 0].sum()),
        "collective_cost_ns": int(trace.cost_ns[trace.peers > 0].sum()),
        "in_place_ops": int((np.diff(trace.mutates.start) > 0).sum()),
        "temporaries": len(trace.temporaries.values),
        "cost_source": str(trace.header.get("cost_source", "unknown")),
        # the layout of the start is for performing the trace, and long
        "header": {key: value for key, value in trace.header.items() if key != "memory_at_start"},
    }


def saved_for_backward(trace: Trace) -> set[int]:
    """Storages that a backward pass reads or updates, and that were made in a forward pass or there at the start."""
    made_in = {storage: phase for phase, row in zip(trace.phase, trace.creates, strict=True) for storage in row}
    uses = zip(trace.phase, trace.reads, trace.mutates, strict=True)
    used = {storage for phase, *rows in uses if phase == Phase.BACKWARD for row in rows for storage in row}
    return {storage for storage in used if made_in.get(storage, Phase.FORWARD) == Phase.FORWARD}
