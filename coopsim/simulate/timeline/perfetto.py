"""A timeline as Chrome's JSON trace events, which Perfetto and chrome://tracing show.

Three processes. *GPU*: a track a stream, and the training steps. *Host*: one thread, what it works on and waits for.
*Memory*: evictions, and counters. Memory is drawn in the time of the GPU: a change takes effect when the task starts
that comes after it in the schedule. An arrow leads from a dispatch to what it launched.

The format: "Trace Event Format" (Chromium). Times in it are microseconds; here with three digits behind the point.
"""

import gzip
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from coopsim.base.files import replacing
from coopsim.base.types import Action
from coopsim.simulate.timeline.memory import levels
from coopsim.simulate.timeline.simulate import Timeline
from coopsim.simulate.timeline.work import Host, TaskKind
from coopsim.trace.schedule import Schedule
from coopsim.trace.table import Trace

_GPU, _HOST, _MEMORY = 1, 2, 3  # processes
_STEPS, _FIRST_STREAM = 1, 10  # threads of the GPU
_CATEGORIES = {
    TaskKind.COMPUTE: "compute",
    TaskKind.RECOMPUTE: "recompute",
    TaskKind.COPY_IN: "copy",
    TaskKind.COPY_ON_WRITE: "copy",
    TaskKind.OFFLOAD: "copy",
    TaskKind.FETCH: "copy",
}
_COPIES = {
    TaskKind.COPY_IN: "copy from the host",
    TaskKind.COPY_ON_WRITE: "copy on write",
    TaskKind.OFFLOAD: "offload",
    TaskKind.FETCH: "fetch",
}
_ENGINES = {TaskKind.OFFLOAD: "copies to the host", TaskKind.FETCH: "copies from the host"}
#: Names of colours that chrome://tracing knows; Perfetto colours by name, so what runs again is called so.
_COLOURS = {
    "compute": "thread_state_running",
    "recompute": "terrible",
    "copy": "rail_load",
    "collective": "rail_animation",
}
_HOST_CATEGORIES = {
    Host.DISPATCH: "dispatch",
    Host.ALLOCATOR: "allocator",
    Host.SEARCH: "search",
    Host.SEGMENT_ALLOC: "cudaMalloc",
    Host.SEGMENT_FREE: "cudaFree",
    Host.QUEUE: "wait: launch queue full",
    Host.SYNC: "wait: GPU",
}


def events(timeline: Timeline, schedule: Schedule, trace: Trace) -> Iterator[dict[str, Any]]:
    """All events, those of a track in order of time. `ts` and `dur` are in ns here; `save` makes them microseconds."""
    yield from _names(timeline, schedule, trace)
    yield from _steps(timeline)
    yield from _gpu(timeline, trace)
    yield from _host(timeline)
    yield from _memory(timeline, schedule, trace)


def save(timeline: Timeline, schedule: Schedule, trace: Trace, path: str | Path) -> int:
    """Write the file, whole or not at all; compressed if its name ends in .gz. Returns the number of events.

    CoopsimError if the path cannot be written, or the schedule takes bytes that are not free.
    """
    lines = [_line(event) for event in events(timeline, schedule, trace)]
    text = '{"displayTimeUnit":"ns","traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"
    data = text.encode()
    if str(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    with replacing(path) as part:
        part.write_bytes(data)
    return len(lines)


def _line(event: dict[str, Any]) -> str:
    times = "".join(f'"{k}":{event[k] // 1000}.{event[k] % 1000:03d},' for k in ("ts", "dur") if k in event)
    rest = json.dumps({k: v for k, v in event.items() if k not in ("ts", "dur")}, separators=(",", ":"))
    return "{" + times + rest[1:]


def _names(timeline: Timeline, schedule: Schedule, trace: Trace) -> Iterator[dict[str, Any]]:
    h = schedule.header
    what = f"{h.get('model', 'trace')}, {h.get('policy', '')} in {h.get('allocator', '')}"
    names: list[tuple[int, int | None, str]] = [
        (_GPU, None, f"GPU ({what})"),
        (_HOST, None, "Host"),
        (_MEMORY, None, "Memory (in the GPU's time)"),
        (_GPU, _STEPS, "steps"),
        (_HOST, 1, "dispatch, search, allocate"),
        (_MEMORY, 1, "evictions"),
    ]
    kinds, streams = timeline.tasks.kind, timeline.tasks.stream
    collective = (trace.peers > 0)[timeline.tasks.op] & (kinds < TaskKind.COPY_IN)
    for stream in sorted(set(streams.tolist())):
        here = streams == stream
        what = (
            " (copies)"
            if (kinds[here] >= TaskKind.COPY_IN).all()
            else " (collectives)"
            if collective[here].all()
            else ""
        )
        engine = _ENGINES.get(TaskKind(int(kinds[here][0])))
        names.append((_GPU, _FIRST_STREAM + stream, engine or f"stream {stream}{what}"))
    for pid, tid, name in names:
        kind = "process" if tid is None else "thread"
        where = {"pid": pid} if tid is None else {"pid": pid, "tid": tid}
        yield {"ph": "M", "name": f"{kind}_name", **where, "args": {"name": name}}
        yield {"ph": "M", "name": f"{kind}_sort_index", **where, "args": {"sort_index": pid if tid is None else tid}}


def _slice(pid: int, tid: int, ts: int, dur: int, name: str, cat: str, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "cat": cat, **more}


def _steps(timeline: Timeline) -> Iterator[dict[str, Any]]:
    ends = np.cumsum(timeline.step_ns).tolist()
    for step, (end, length) in enumerate(zip(ends, timeline.step_ns.tolist(), strict=True)):
        yield _slice(_GPU, _STEPS, end - length, length, f"step {step}", "step")


def _gpu(timeline: Timeline, trace: Trace) -> Iterator[dict[str, Any]]:
    t, peers, moved = timeline.tasks, trace.peers.tolist(), trace.bytes_moved.tolist()
    columns = [c.tolist() for c in (t.op, t.step, t.kind, t.stream, t.storage, timeline.start_ns, timeline.end_ns)]
    for task, (op, step, kind, stream, storage, start, end) in enumerate(zip(*columns, strict=True)):
        category = _CATEGORIES[kind]
        args = {"op": op, "step": step, "phase": trace.phase[op], "module": trace.module[op]}
        args |= {"for op": args.pop("op")} if kind in _ENGINES else {}
        if peers[op] and kind == TaskKind.COMPUTE:
            category = "collective"
            args |= {"bytes": moved[op], "peers": peers[op]}
        name = trace.name[op]
        if kind == TaskKind.RECOMPUTE:
            name = f"again: {name}"
        elif kind in _COPIES:
            name = _COPIES[kind]
            args["storage"] = storage
        more: dict[str, Any] = {"cname": _COLOURS[category], "args": args}
        if timeline.params.dispatch_ns:  # else there is nothing for the arrow to come from
            more |= {"bind_id": hex(task + 1), "flow_in": True}
        yield _slice(_GPU, _FIRST_STREAM + stream, start, end - start, name, category, **more)


def _host(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Stretches of one kind that follow each other are one slice; a dispatch is one by itself."""
    launches = iter(hex(task + 1) for task in range(len(timeline.tasks)))
    h = timeline.host
    open_: dict[str, Any] | None = None
    for kind, begin, ns in zip(h.kind.tolist(), h.begin_ns.tolist(), h.ns.tolist(), strict=True):
        name = _HOST_CATEGORIES[kind]
        if open_ and kind != Host.DISPATCH and open_["name"] == name and open_["ts"] + open_["dur"] == begin:
            open_["dur"] += ns
            continue
        if open_:
            yield open_
        open_ = _slice(_HOST, 1, begin, ns, name, name.partition(":")[0])
        if kind == Host.DISPATCH:
            open_ |= {"bind_id": next(launches), "flow_out": True}
    if open_:
        yield open_


def _memory(timeline: Timeline, schedule: Schedule, trace: Trace) -> Iterator[dict[str, Any]]:
    when = _gpu_time(timeline, len(schedule))
    rows = schedule.rows()
    for row in np.flatnonzero(schedule.action == Action.EVICT).tolist():
        _, step, op, storage, version, address, nbytes, *_ = rows[row]
        args = {"bytes": nbytes, "address": address, "role": trace.role[storage], "for op": op, "step": step}
        name = f"evict s{storage}.{version}"
        yield {
            "ph": "i",
            "s": "t",
            "pid": _MEMORY,
            "tid": 1,
            "ts": when[row],
            "name": name,
            "cat": "evict",
            "args": args,
        }
    for ts, group in groupby(levels(schedule, timeline.calls), key=lambda change: when[change[0]]):
        changes = [level for _, level in group]
        most, last = max(changes, key=lambda level: level.used), changes[-1]
        for level in [most, last] if most.used > last.used else [last]:  # a peak between two ops is not lost
            args = {"used": level.used, "free": level.free, "largest hole": level.largest_hole}
            if timeline.calls:
                args["reserved"] = level.reserved
            yield {"ph": "C", "pid": _MEMORY, "ts": ts, "name": "bytes", "args": args}


def _gpu_time(timeline: Timeline, n: int) -> list[int]:
    """For each row of the schedule, when it takes effect on the GPU: when the task that follows it starts.

    Where streams run side by side a task may start before one that was launched earlier: the later time counts.
    """
    starts = np.maximum.accumulate(np.append(timeline.start_ns, timeline.end_ns.max(initial=0)))
    following = np.searchsorted(timeline.tasks.row, np.arange(n))
    when: list[int] = starts[following].tolist()
    return when
