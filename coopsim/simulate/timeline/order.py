"""Which tasks of other streams a task must wait for: those whose bytes it reads, and those whose bytes it overwrites.

Values are in memory, so bytes tell it all: an op waits for what last wrote the bytes that it reads, and for what last
wrote or since read the bytes that it writes. That covers a result of another stream as well as memory that
another stream has used before; whoever uses memory again waits on the GPU, not on the host.

Copies to the host and back in the simulation in time: which tasks they wait for, which wait for them.

As in a replay on demand (docs/replay.md): a copy begins when all that was launched before it is done, an
eviction's bytes are free when the copy to the host has ended, an op starts when its inputs have been fetched.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from coopsim.base.types import Action, CoopsimError, Role
from coopsim.simulate.timeline.work import TRANSFERS, TaskKind, Tasks
from coopsim.trace.schedule import GIVES_BACK, Schedule
from coopsim.trace.table import Trace

Value = tuple[int, int]
Bytes = tuple[int, int]  # address, end


def waits(tasks: Tasks, schedule: Schedule, trace: Trace) -> list[tuple[int, ...]]:
    """For each task the tasks of other streams that must be done before it starts, the last of each stream.

    CoopsimError if there are several streams and the schedule has no addresses.
    """
    if len(set(tasks.stream[~np.isin(tasks.kind, TRANSFERS)].tolist())) < 2:
        return [()] * len(tasks)
    memory = _Memory()
    found: list[tuple[int, ...]] = []
    for task, (stream, reads, writes) in enumerate(_accesses(tasks, schedule, trace)):
        before: dict[int, int] = {}
        for where in reads:
            memory.read(where, task, stream, before)
        for where in writes:
            memory.write(where, task, stream, before)
        before.pop(stream, None)
        found.append(tuple(sorted(before.values())))
    return found


@dataclass
class _Run:
    """Bytes with one history, from where its key says to the next: the last writer, and since then each stream's last
    reader."""

    writer: tuple[int, int] | None = None  # stream, task
    readers: dict[int, int] = field(default_factory=dict)


class _Memory:
    def __init__(self) -> None:
        self.starts = [0]
        self.runs = [_Run()]

    def _cut(self, at: int) -> int:
        """The index of the run that starts at this address, made if need be."""
        i = bisect_right(self.starts, at) - 1
        if self.starts[i] == at:
            return i
        self.starts.insert(i + 1, at)
        self.runs.insert(i + 1, _Run(self.runs[i].writer, dict(self.runs[i].readers)))
        return i + 1

    def read(self, where: Bytes, task: int, stream: int, before: dict[int, int]) -> None:
        for run in self.runs[self._cut(where[0]) : self._cut(where[1])]:
            _latest(before, [run.writer] if run.writer else [])
            run.readers[stream] = task

    def write(self, where: Bytes, task: int, stream: int, before: dict[int, int]) -> None:
        low, high = self._cut(where[0]), self._cut(where[1])
        for run in self.runs[low:high]:
            _latest(before, [run.writer] if run.writer else [])
            _latest(before, run.readers.items())
        self.starts[low:high] = [where[0]]
        self.runs[low:high] = [_Run((stream, task))]


def _latest(before: dict[int, int], tasks: Iterable[tuple[int, int]]) -> None:
    for stream, task in tasks:
        before[stream] = max(task, before.get(stream, -1))


def _accesses(tasks: Tasks, schedule: Schedule, trace: Trace) -> Iterable[tuple[int, list[Bytes], list[Bytes]]]:
    """(stream, bytes read, bytes written) of each task, in order."""
    read_by, made_by = values(trace)
    where: dict[Value, Bytes] = {}
    taken: dict[Value, Bytes] = {}  # the temporaries of the op that runs next
    task = 0
    streams, kinds = tasks.stream.tolist(), tasks.kind.tolist()
    task_rows, storages = tasks.row.tolist(), tasks.storage.tolist()
    for row, (action, _, op, storage, version, address, nbytes, *_) in enumerate(schedule.rows()):
        value = storage, version
        if action in (Action.ALLOC, Action.MOVE):
            if address < 0:
                raise CoopsimError(
                    f"several streams need a schedule with addresses, which a "
                    f"{schedule.header.get('allocator', 'counter')} does not give"
                )
            (where if storage >= 0 else taken)[value] = address, address + nbytes
        elif action in GIVES_BACK:
            (where if storage >= 0 else taken).pop(value, None)
        while task < len(task_rows) and task_rows[task] == row:
            s = storages[task]
            ins = [where[v] for v in read_by[op] if v in where]
            # A version that takes over its predecessor's place has none of its own yet.
            outs = [where.get(v, where.get((v[0], v[1] - 1))) for v in made_by[op]]
            if kinds[task] in TRANSFERS:  # these wait for all, and timeline/order.py has who waits for them
                yield streams[task], [], []
            elif kinds[task] == TaskKind.COPY_IN:
                yield streams[task], [], [where[s, 0]] if (s, 0) in where else []
            elif kinds[task] == TaskKind.COPY_ON_WRITE:
                new = next(v for v in made_by[op] if v[0] == s)
                yield streams[task], [where[s, new[1] - 1]], [where[new]]
            else:
                yield streams[task], ins, [*filter(None, outs), *taken.values()]
            task += 1


def values(trace: Trace) -> tuple[list[list[Value]], list[list[Value]]]:
    """What each op reads and what it writes, as (storage, version); docs/replay.md has the rules."""
    version = dict.fromkeys(range(trace.n_storages), 0)
    read_by, made_by = [], []
    empty = {s for s, n in enumerate(trace.bytes.tolist()) if n == 0}
    for reads, mutates, creates in zip(trace.reads.rows(), trace.mutates.rows(), trace.creates.rows(), strict=True):
        reads, mutates, creates = ([s for s in dict.fromkeys(r) if s not in empty] for r in (reads, mutates, creates))
        read_by.append([(s, version[s]) for s in dict.fromkeys(reads + mutates)])
        aside: list[int] = []  # statistics: written where they are, no version of their own
        if creates or any(trace.role[s] != Role.BUFFER for s in mutates):
            aside = [s for s in mutates if trace.role[s] == Role.BUFFER]
        for s in mutates:
            version[s] += s not in aside
        made_by.append([(s, version[s]) for s in mutates + creates])
    return read_by, made_by


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
                (copied if kind == TaskKind.OFFLOAD else fetched)[value] = task
            else:
                found[task] = tuple(sorted(awaited | {fetched[v] for v in read_by[op] if v in fetched}))
                last[stream] = task
    return found
