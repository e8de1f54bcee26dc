"""Read PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot), which need not be trusted."""

from coopsim.snapshot.model import Block, Event, Frame, Segment, Snapshot, read, require_history
from coopsim.snapshot.unpickle import SnapshotError

__all__ = ["Block", "Event", "Frame", "Segment", "Snapshot", "SnapshotError", "read", "require_history"]
