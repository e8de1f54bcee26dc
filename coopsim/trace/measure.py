"""What can be said of a trace without replaying it."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.types import Phase, Role

if TYPE_CHECKING:
    from coopsim.trace.table import Trace


def round_up(nbytes: Any, granule: int) -> Any:
    """`nbytes` rounded up to a multiple of `granule`."""
    return -(-nbytes // granule) * granule


def live_bytes(trace: "Trace", granule: int = 1) -> np.ndarray:
    """Bytes alive while each op runs, with what it makes and its temporaries; nothing evicted, updates in place."""
    size = round_up(trace.bytes, granule)
    result: np.ndarray = _alive(trace, size) + _inside(trace, granule)
    return result


def live_bytes_by_role(trace: "Trace") -> dict[str, np.ndarray]:
    """What adds up to `live_bytes`: bytes per op of each role that is there, in the order of Role."""
    roles = np.array(trace.role)
    found = {str(role): _alive(trace, np.where(roles == role, trace.bytes, 0)) for role in Role}
    found[str(Role.TEMPORARY)] = found[str(Role.TEMPORARY)] + _inside(trace, 1)
    return {role: alive for role, alive in found.items() if alive.any()}


def _alive(trace: "Trace", size: np.ndarray) -> np.ndarray:
    """Of storages of these sizes, the bytes that are alive while each op runs."""
    op_of_creation = np.repeat(np.arange(trace.n_ops), np.diff(trace.creates.start))
    change = np.zeros(trace.n_ops + 1, np.int64)
    np.add.at(change, op_of_creation, size[trace.creates.values])
    np.add.at(change, trace.freed_after + 1, -size[trace.freed])
    result: np.ndarray = np.cumsum(change[:-1]) + size[trace.alive_at_start].sum()
    return result


def _inside(trace: "Trace", granule: int) -> np.ndarray:
    """Bytes that each op asks for inside, its temporaries."""
    op_of_temporary = np.repeat(np.arange(trace.n_ops), np.diff(trace.temporaries.start))
    inside = np.zeros(trace.n_ops, np.int64)
    np.add.at(inside, op_of_temporary, round_up(trace.temporaries.values, granule))
    return inside


def peak_bytes(trace: "Trace", granule: int = 1) -> int:
    """Peak without eviction: what a memory ratio of 100 % is."""
    return int(max(live_bytes(trace, granule).max(), round_up(trace.bytes, granule)[trace.alive_at_start].sum()))


def bytes_at_peak(trace: "Trace") -> dict[str, int]:
    """What is alive when the most is (as in `live_bytes`), by role; the op's own temporaries count as `temporary`."""
    op = int(live_bytes(trace).argmax())
    return {role: int(alive[op]) for role, alive in live_bytes_by_role(trace).items() if alive[op]}


def info(trace: "Trace") -> dict[str, Any]:
    """A trace in figures: ops, storages, bytes by role (made or there before), peak without eviction, base cost."""
    roles = np.array(trace.role)
    at_start = trace.alive_at_start
    by_role = {str(r): int(trace.bytes[roles == r].sum()) for r in Role if (roles == r).any()}
    return {
        "trace": trace.label,
        "content_hash": trace.content_hash,
        "steps": trace.n_steps,
        "ops": trace.n_ops,
        "ops_by_phase": dict(Counter(trace.phase)),
        "storages": trace.n_storages,
        "bytes_by_role": by_role,
        "bytes_at_start": int(trace.bytes[at_start].sum()),
        "peak_bytes": peak_bytes(trace),
        "peak_bytes_rounded": peak_bytes(trace, 512),
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


def saved_for_backward(trace: "Trace") -> set[int]:
    """Storages that a backward pass reads or updates, and that were made in a forward pass or there at the start."""
    made_in = {storage: phase for phase, row in zip(trace.phase, trace.creates, strict=True) for storage in row}
    uses = zip(trace.phase, trace.reads, trace.mutates, strict=True)
    used = {storage for phase, *rows in uses if phase == Phase.BACKWARD for row in rows for storage in row}
    return {storage for storage in used if made_in.get(storage, Phase.FORWARD) == Phase.FORWARD}
