"""Read PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot), which need not be trusted."""

from coopsim.snapshot.model import Event, Frame, Segment, Snapshot, SnapshotBlock, read, require_history
from coopsim.snapshot.unpickle import SnapshotError

__all__ = ["Event", "Frame", "Segment", "Snapshot", "SnapshotBlock", "SnapshotError", "read", "require_history"]
