"""Copies to the host and back in the simulation in time: which tasks they wait for, which wait for them.

As in a replay on demand (docs/replay-copies.md): a copy begins when all that was launched before it is done, an
eviction's bytes are free when the copy to the host has ended, an op starts when its inputs have been fetched.
"""

from coopsim.schedule import GIVES_BACK, Schedule
from coopsim.timeline.order import Value, values
from coopsim.timeline.work import TRANSFERS, Kind, Tasks
from coopsim.trace.table import Trace
from coopsim.types import Action


def copy_waits(tasks: Tasks, schedule: Schedule, trace: Trace) -> list[tuple[int, ...]]:
    """For each task, those that it waits for because of copies."""
    read_by, _ = values(trace)
    columns = zip(tasks.row.tolist(), tasks.stream.tolist(), tasks.kind.tolist(), strict=True)
    of_row: dict[int, list[tuple[int, int, int]]] = {}
    for task, (row, stream, kind) in enumerate(columns):
        of_row.setdefault(row, []).append((task, stream, kind))
    last: dict[int, int] = {}  # of each stream of ops, its last task
    copied: dict[Value, int] = {}  # to the host, by this task
    fetched: dict[Value, int] = {}
    awaited: set[int] = set()  # the last copy to the host whose bytes have been given to others
    found: list[tuple[int, ...]] = [()] * len(tasks)
    for row, (action, _, op, storage, version, *_) in enumerate(schedule.rows()):
        value = storage, version
        if action == Action.EVICT and value in copied:
            awaited = {max(awaited | {copied[value]})}
        if action in GIVES_BACK:
            fetched.pop(value, None)
        elif action == Action.DISCARD:
            copied.pop(value, None)
        for task, stream, kind in of_row.get(row, ()):
            if kind in TRANSFERS:
                found[task] = tuple(sorted({*last.values(), *awaited}))
                (copied if kind == Kind.OFFLOAD else fetched)[value] = task
            else:
                found[task] = tuple(sorted(awaited | {fetched[v] for v in read_by[op] if v in fetched}))
                last[stream] = task
    return found
