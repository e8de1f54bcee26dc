"""The requests of a memory snapshot's history, as far back as it goes."""

from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import Any

from coopsim.base.types import Role
from coopsim.trace import Trace
from coopsim.trace.build import EMPTY_CACHE, TraceBuilder
from coopsim.trace.requests import Requests, Writer
from coopsim.trace.snapshot.model import DEFAULT, Pool, Snapshot, SnapshotEvent, SnapshotSegment, place
from coopsim.trace.snapshot.rewind import rewind

_TAKES, _RETURNS = frozenset({"segment_alloc", "segment_map"}), frozenset({"segment_free", "segment_unmap"})
_REQUESTS = frozenset({"alloc", "oom"})
_BEFORE, _NOWHERE = "there before the history", "no line of Python"
_NEVER = 1 << 30  #: ticks


def device_bytes(snapshot: Snapshot) -> int | None:
    """What the device had for this process in all, from the first time it ran out of memory; None if it never did."""
    reserved = sum(segment.nbytes for segment in rewind(snapshot))
    for event in snapshot.events:
        reserved += _growth(event)
        if event.action == "oom":
            return reserved + event.device_free
    return None


def of_snapshot(snapshot: Snapshot, *, total_bytes: int | None = None) -> Requests:
    """What the process asked for; `source` is the event. `total_bytes`: what the device had for it, if known.

    What was there before the history begins is restored first, segment by segment. A block that another stream still
    used after it was freed waits here, too, until the request that saw it come back. Segments that went back to the
    device within a request that found no room there were given up by the allocator, which a simulated one does by
    itself; all others by empty_cache, which is a request of its own. A private pool is released when a
    segment of it goes back after its last request.
    """
    to = Writer()
    start = rewind(snapshot)
    pools = _pools(snapshot, start)
    places = to.restore(
        (
            (
                s.nbytes,
                s.stream,
                [(b.nbytes, None if b.state == "free" else place(b.frames) or _BEFORE) for b in s.blocks],
            )
            for s in start
        ),
        [pools[s.pool] for s in start],
    )
    number = {start[s].blocks[b].address: n for (s, b), n in places.items()}
    events = snapshot.events
    returns = _comes_back(events)
    clocked = any(back != at + 1 for at, back in returns.items())
    served = _served(events)
    if clocked:
        for segment in start:
            for block in segment.blocks:
                if block.state == "pending":
                    back = returns.get(-block.address - 1, len(events))
                    _free_later(to, number.pop(block.address), segment.stream, served[back] + 1, -1)
    prologue = len(to)
    last = dict.fromkeys(pools, -1) | {e.pool: at for at, e in enumerate(events) if e.action in _REQUESTS}
    line = ""  # of Python, the latest
    emptied = empties(snapshot, total_bytes=total_bytes)
    for at, event in enumerate(events):
        if event.action in _REQUESTS:
            pool = pools[event.pool]
            to.within(pool, at, captures=event.pool[1] == 0)
            if clocked:
                to.tick(1, at)
            here = place(event.frames)
            line = here or line
            label = here or (f"{_NOWHERE}, after {line}" if line else _NOWHERE)
            taken = to.take(event.nbytes, event.stream, at, label)
            if event.action == "alloc":
                number[event.address] = taken
            continue
        if event.action in _RETURNS and at > last[event.pool] and pools[event.pool]:
            to.release(pools[event.pool], at)
        if event.action == "free_requested":
            freed = number.pop(event.address)
            back = returns.get(at, len(events))
            if back == at + 1:
                to.give_back(freed, at)
            else:
                to.within(0, at)
                # One tick more where a wait for all streams ended it: nothing else may end it before.
                waited = back + 1 < len(events) and events[back + 1].action in _RETURNS
                _free_later(to, freed, event.stream, served[back] + 1 - served[at] + waited, at)
        elif at in emptied:
            to.within(0, at)
            to.empty(at)
    to.within(0, len(events) - 1)
    return to.requests(prologue)


def empties(snapshot: Snapshot, *, total_bytes: int | None = None) -> frozenset[int]:
    """The events at which the program called empty_cache: the first of returns that the allocator did not make itself.

    total_bytes: what the device had for the process, if known.
    """
    events = snapshot.events
    given_up = _given_up(snapshot, sum(segment.nbytes for segment in rewind(snapshot)), total_bytes)
    return frozenset(
        at
        for at, event in enumerate(events)
        if event.action in _RETURNS and at not in given_up and (at == 0 or events[at - 1].action not in _RETURNS)
    )


def _pools(snapshot: Snapshot, start: Iterable[SnapshotSegment]) -> dict[Pool, int]:
    """A number for each private pool, from 1; 0 for none."""
    ids = dict.fromkeys([DEFAULT, *(s.pool for s in start), *(e.pool for e in snapshot.events)])
    return {pool: number for number, pool in enumerate(ids)}


def _free_later(to: Writer, number: int, stream: int, ticks: int, source: int) -> None:
    """Free a block that another stream uses for so many more ticks. Which one, no history says."""
    other = 1 if stream != 1 else 2
    to.delay(min(ticks, _NEVER), source)
    to.use(number, other, source)
    to.give_back(number, source)


def _comes_back(events: tuple[SnapshotEvent, ...]) -> dict[int, int]:
    """By free_requested: its free_completed. By -address-1: that of a block that was freed before the history."""
    asked: dict[int, int] = {}
    found: dict[int, int] = {}
    for at, event in enumerate(events):
        if event.action == "free_requested":
            asked[event.address] = at
        elif event.action == "free_completed":
            found[asked.pop(event.address, -event.address - 1)] = at
    for at in asked.values():
        found[at] = len(events)
    return found


def _served(events: tuple[SnapshotEvent, ...]) -> list[int]:
    """Before each event, and after the last: how many requests for memory there were."""
    counts, count = [], 0
    for event in events:
        counts.append(count)
        count += event.action in _REQUESTS
    return [*counts, _NEVER]


def _is_return(event: SnapshotEvent) -> bool:
    return event.action in _RETURNS or event.action == "free_completed"


def _growth(event: SnapshotEvent) -> int:
    if event.action in _TAKES:
        return event.nbytes
    return -event.nbytes if event.action in _RETURNS else 0


def _given_up(snapshot: Snapshot, reserved: int, total_bytes: int | None) -> set[int]:
    """The returns of segments that the allocator makes by itself: to collect garbage, or to make room on the device."""
    events = snapshot.events
    collects = "garbage_collection_threshold" in snapshot.conf
    found: set[int] = set()
    run: list[int] = []
    before = reserved
    for at, event in enumerate(events):
        if _is_return(event):
            if not run:
                before = reserved
            run.append(at)
        else:
            short = total_bytes is not None and before + event.nbytes > total_bytes
            if event.action == "oom" or (event.action in _TAKES and (short or collects)):
                found.update(run)
            run = []
        reserved += _growth(event)
    return found


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
