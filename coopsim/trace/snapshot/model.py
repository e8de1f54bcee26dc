"""The contents of a memory snapshot: segments with their blocks at its end, and the history that led there.

The format is that of PyTorch 2.6 to 2.15 (torch/cuda/memory.py, `_snapshot`); unknown keys are ignored.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from coopsim.base.text import human
from coopsim.trace.snapshot.unpickle import SnapshotError, load
from coopsim.trace.snapshot.written_by import UNKNOWN, Written, written_by

ACTIONS = frozenset(
    {"alloc", "free_requested", "free_completed", "oom", "segment_alloc", "segment_free"}
    | {"segment_map", "segment_unmap"}
)
STATES = {"active_allocated": "allocated", "active_pending_free": "pending", "inactive": "free"}
#: Parts of paths by which files of libraries are recognized.
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python")
#: The last three were folders of 0.2.
_OURS = tuple(f"/coopsim/{name}/" for name in ("record", "run", "capture", "observe", "script"))
#: C++ frames, which PyTorch's snapshots have by default: a node of a backward pass, and an op.
_NODE = re.compile(r"(?:^|::)(\w+Backward\w*)::apply\(")
_OP = re.compile(r"(?:^| )at::_ops::(\w+)::")


#: A name in older versions, or in their documentation.
STATES |= {"active_awaiting_free": "pending"}
_LARGEST = 2**62
_LINES = 2**31  #: line numbers from here on stand for none
Pool = tuple[int, int]  #: PyTorch's id of a private pool (a CUDA graph's, or a MemPool)
DEFAULT: Pool = (0, 0)  #: the id of no private pool


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A frame of a stack; `line` is 0 where PyTorch does not know it."""

    file: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class SnapshotBlock:
    """A part of a segment. `state`: allocated, pending or free; `requested_bytes` of a free block is stale."""

    address: int
    nbytes: int
    requested_bytes: int
    state: str
    frames: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotSegment:
    """Memory that the allocator holds of the device, by cudaMalloc or as a mapped range of an expandable segment."""

    address: int
    nbytes: int
    stream: int
    large: bool
    expandable: bool
    blocks: tuple[SnapshotBlock, ...]
    pool: Pool = DEFAULT


@dataclass(frozen=True, slots=True)
class SnapshotEvent:
    """An entry of the history. For an `oom`, `address` is -1; for all others, `device_free` is."""

    action: str
    address: int
    nbytes: int
    stream: int
    frames: tuple[StackFrame, ...] = ()
    device_free: int = -1
    pool: Pool = DEFAULT


@dataclass(frozen=True)
class Snapshot:
    """The snapshot of one device. `conf`: the last value of PYTORCH_CUDA_ALLOC_CONF in the process. `written`: by which
    versions of PyTorch it can have been written.
    """

    path: str
    device: int
    conf: str
    segments: tuple[SnapshotSegment, ...]
    events: tuple[SnapshotEvent, ...]
    written: Written = UNKNOWN


def read(path: str | Path, *, device: int | None = None) -> Snapshot:
    """Read the snapshot of a device, by default of the only one in the file.

    Raises SnapshotError for a file that is missing, hostile, damaged or of another kind; for a device that is not in
    it; if none is named and it has several; and for private pools (CUDA graphs) if the history does not say which
    requests are from them.
    """
    reader = _Reader(str(path))
    found = reader.check(load(path), dict, "the snapshot")
    if "segments" not in found or "device_traces" not in found:
        raise SnapshotError(f"{path}: not a memory snapshot: it has no segments or no device_traces")
    traces = reader.check(found["device_traces"], list, "device_traces")
    segments = [reader.check(s, dict, "a segment") for s in reader.check(found["segments"], list, "segments")]
    used = {i for i, trace in enumerate(traces) if trace} | {reader.whole(s, "device") for s in segments}
    if device is None:
        if len(used) > 1:
            raise SnapshotError(f"{path}: has devices {', '.join(map(str, sorted(used)))}; choose one with --device")
        device = next(iter(used), 0)
    elif device not in used:
        raise SnapshotError(f"{path}: nothing of device {device}; it has {', '.join(map(str, sorted(used))) or 'none'}")
    settings = reader.check(found.get("allocator_settings", {}), dict, "allocator_settings")
    events = reader.check(traces[device], list, "a device's trace") if device < len(traces) else []
    pools = any(reader.pool(s.get("segment_pool_id")) != DEFAULT for s in segments)
    if pools and events and not any("pool_id" in entry for entry in events if isinstance(entry, dict)):
        raise SnapshotError(
            f"{path}: has private pools, but its history has no pool_id; newer versions of torch write it"
        )
    return Snapshot(
        path=str(path),
        device=device,
        conf=reader.check(settings.get("PYTORCH_CUDA_ALLOC_CONF", ""), str, "PYTORCH_CUDA_ALLOC_CONF"),
        segments=tuple(sorted((reader.segment(s) for s in segments if s["device"] == device), key=lambda s: s.address)),
        events=tuple(reader.events(events)),
        written=written_by(found, events),
    )


def require_history(snapshot: Snapshot) -> None:
    """Raise SnapshotError if the history has no allocations, so that there is nothing to replay or to import."""
    if any(event.action in ("alloc", "oom") for event in snapshot.events):
        return
    held = sum(segment.nbytes for segment in snapshot.segments)
    raise SnapshotError(
        f"{snapshot.path}: its history has no allocations, only what was there at its end ({human(held)} reserved); "
        "call torch.cuda.memory._record_memory_history() at the start of the program"
    )


class _Reader:
    """Reads and checks fields: each must have its type and be in its range, or SnapshotError is raised."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._frames: dict[tuple[str, int, str], StackFrame] = {}
        self._stacks: dict[int, tuple[object, tuple[StackFrame, ...]]] = {}

    def check(self, value: Any, kind: type, what: str) -> Any:
        """Return the value if it is of a type."""
        if not isinstance(value, kind):
            raise SnapshotError(f"{self._path}: not a memory snapshot: {what} is {type(value).__name__}")
        return value

    def whole(self, fields: Mapping[str, Any], key: str, default: int | None = None) -> int:
        """Return a field that is a non-negative whole number."""
        value = fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
            raise SnapshotError(f"{self._path}: {key} is {_shown(value)} where a size, address or number must be")
        return value

    def segment(self, fields: Mapping[str, Any]) -> SnapshotSegment:
        """Return a segment, whose blocks must fill it."""
        start, nbytes = self.whole(fields, "address"), self.whole(fields, "total_size")
        blocks, at = [], start
        for block in self.check(fields.get("blocks"), list, "the blocks of a segment"):
            self.check(block, dict, "a block")
            state = STATES.get(str(block.get("state")))
            if state is None:
                raise SnapshotError(f"{self._path}: a block's state is {_shown(block.get('state'))}")
            if self.whole(block, "address", at) != at:
                raise SnapshotError(f"{self._path}: the blocks of the segment at {start:#x} do not lie side by side")
            size = self.whole(block, "size")
            requested = self.whole(block, "requested_size", size)
            blocks.append(SnapshotBlock(at, size, requested, state, self.frames(block.get("frames"))))
            at += size
        if at != start + nbytes:
            raise SnapshotError(f"{self._path}: the blocks of the segment at {start:#x} do not fill it")
        return SnapshotSegment(
            address=start,
            nbytes=nbytes,
            stream=self.whole(fields, "stream", 0),
            large=fields.get("segment_type") != "small",
            expandable=bool(fields.get("is_expandable", False)),
            blocks=tuple(blocks),
            pool=self.pool(fields.get("segment_pool_id")),
        )

    def events(self, entries: Iterable[Any]) -> Iterable[SnapshotEvent]:
        """Yield the events of the history, oldest first, leaving out entries that do not concern memory."""
        for entry in entries:
            action = self.check(entry, dict, "an entry of the history").get("action")
            if not isinstance(action, str) or action not in ACTIONS:
                continue
            oom = action == "oom"
            yield SnapshotEvent(
                action=action,
                address=-1 if oom else self.whole(entry, "addr"),
                nbytes=self.whole(entry, "size"),
                stream=self.whole(entry, "stream", 0),
                frames=self.frames(entry.get("frames")),
                device_free=self.whole(entry, "device_free", entry.get("addr", 0)) if oom else -1,
                pool=self.pool(entry.get("pool_id")),
            )

    def frames(self, frames: Any) -> tuple[StackFrame, ...]:
        """Return a stack, innermost frame first. Stacks that the pickle shares become one tuple."""
        if not frames:
            return ()
        known = self._stacks.get(id(frames))
        if known is not None and known[0] is frames:
            return known[1]
        stack = []
        for frame in self.check(frames, list, "a stack"):
            self.check(frame, dict, "a frame")
            key = str(frame.get("filename", "")), self.line(frame), str(frame.get("name", ""))
            stack.append(self._frames.setdefault(key, StackFrame(*key)))
        self._stacks[id(frames)] = frames, tuple(stack)
        return tuple(stack)

    def line(self, frame: Mapping[str, Any]) -> int:
        """Return a frame's line; 0 for an unknown one, which PyTorch writes as -1, signed or unsigned."""
        value = frame.get("line", 0)
        if not isinstance(value, int) or isinstance(value, bool):
            raise SnapshotError(f"{self._path}: line is {_shown(value)} where a number must be")
        return value if 0 <= value < _LINES else 0

    def pool(self, value: Any) -> Pool:
        """Return a private pool's id, two non-negative numbers; DEFAULT if there is none."""
        if value is None:
            return DEFAULT
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise SnapshotError(f"{self._path}: a pool's id is {_shown(value)}")
        first, second = (self.whole({"a pool's id": n}, "a pool's id") for n in value)
        return first, second


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (int, float, str, type(None))) else type(value).__name__
    return text if len(text) < 60 else text[:57] + "..."


def is_own(frame: StackFrame) -> bool:
    """Return whether a frame is Python code of the user's: in no folder of a library."""
    return is_python(frame) and not any(part in frame.file for part in (*_LIBRARIES, *_OURS))


@cache
def place(frames: tuple[StackFrame, ...]) -> str:
    """Return the innermost Python line of the user's own, as "file:line function".

    If there is none, as in the threads of a backward pass: the autograd node that ran and the op that it called;
    without these, the innermost line of a library; "" if the stack has no Python line either.
    """
    python = [f for f in frames if is_python(f) and not any(part in f.file for part in _OURS)]
    own = next((f for f in python if not any(part in f.file for part in _LIBRARIES)), None)
    line = own or (python[0] if python else None)
    ran = "" if own else _backward(frames)
    if ran or line is None:
        return ran
    file = PurePath(line.file).name
    return f"{file}:{line.line} {line.name}" if line.line else f"{file} {line.name}"  # the line is not known


def is_python(frame: StackFrame) -> bool:
    """Return whether a frame is Python code."""
    return frame.file.endswith(".py") or frame.file.startswith("<ipython-input")


def _backward(frames: tuple[StackFrame, ...]) -> str:
    op = ""
    for frame in frames:
        if node := _NODE.search(frame.name):
            return f"{node[1]}, {op}" if op else node[1]
        if called := _OP.search(frame.name):
            op = called[1]
    return ""
