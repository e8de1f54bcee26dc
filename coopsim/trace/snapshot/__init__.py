"""Read PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot), which need not be trusted."""

from coopsim.trace.snapshot.model import (
    Snapshot,
    SnapshotBlock,
    SnapshotEvent,
    SnapshotSegment,
    StackFrame,
    read,
    require_history,
)
from coopsim.trace.snapshot.unpickle import SnapshotError

__all__ = [
    "Snapshot",
    "SnapshotBlock",
    "SnapshotError",
    "SnapshotEvent",
    "SnapshotSegment",
    "StackFrame",
    "read",
    "require_history",
]
