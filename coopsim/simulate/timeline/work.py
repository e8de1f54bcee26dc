"""What host and GPU have to do, in order, for the rows of a schedule: the input of the simulation in time."""

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import Action, Role
from coopsim.cards.link import Link
from coopsim.simulate.timeline.params import Params
from coopsim.simulate.timeline.segments import AllocatorCalls
from coopsim.trace.schedule import GIVES_BACK, Schedule
from coopsim.trace.table import Trace

Ints = NDArray[np.int64]


class TaskKind(IntEnum):
    """What a task of the GPU is."""

    COMPUTE = 0  #: an op of the program
    RECOMPUTE = 1  #: an op run again
    COPY_IN = 2  #: an input of the step, from the host
    COPY_ON_WRITE = 3  #: the old version of a storage, to where the new one will be
    OFFLOAD = 4  #: a value, to the host, on the engine for that direction
    FETCH = 5  #: a value, from the host, on the engine for that direction


TRANSFERS = (TaskKind.OFFLOAD, TaskKind.FETCH)


class Host(IntEnum):
    """What a stretch of the host's time goes into. The last two are waits."""

    DISPATCH = 0  #: an op or a copy, to its launch
    ALLOCATOR = 1  #: serving an allocation or a free, without the device
    SEARCH = 2  #: for what to evict, and evicting it
    SEGMENT_ALLOC = 3  #: cudaMalloc
    SEGMENT_FREE = 4  #: cudaFree
    QUEUE = 5  #: waiting for room in the launch queue
    SYNC = 6  #: waiting for the GPU


#: What the host does after some work, other than launching a task: wait for the GPU; the same for a cudaFree; nothing.
WAIT, WAIT_TO_FREE, NOTHING = -1, -2, -3


@dataclass(frozen=True)
class Tasks:
    """What the GPU does, a row per task in the order of launch.

    `row` is the schedule's that runs the op which the task is, or is for; `storage` what a copy copies (else -1). Each
    of the two copy engines counts as a stream; `cost_ns` of a copy there is what it takes while the other is idle.
    """

    row: Ints
    op: Ints
    step: Ints
    kind: NDArray[np.int8]
    stream: Ints
    cost_ns: Ints
    storage: Ints

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class HostWork:
    """What the host does, a row per stretch of its time, in order; and the events between them.

    `at[k]` is how many stretches come before event k. `then[k]` is the task that it launches, WAIT or WAIT_TO_FREE for
    all that has been launched, or NOTHING, at the end.
    """

    row: Ints
    kind: NDArray[np.int8]
    ns: Ints
    at: Ints
    then: Ints

    def sums(self, *without: Host) -> list[int]:
        """The work before each event since the one before it, in ns, some kinds left out."""
        ns = np.where(np.isin(self.kind, without), 0, self.ns)
        total = np.concatenate([[0], np.cumsum(ns)])
        sums: list[int] = np.diff(total[self.at], prepend=0).tolist()
        return sums


def work(
    schedule: Schedule, trace: Trace, params: Params, calls: dict[int, AllocatorCalls], link: Link | None = None
) -> tuple[Tasks, HostWork]:
    """The tasks of the GPU and the work of the host that launches them.

    Rows between two ops belong to the later one. What is placed before the first step is not part of any step.
    """
    writer = _Writer(schedule, trace, params, calls, link)
    writer.write()
    return writer.tasks(), writer.host()


class _Writer:
    def __init__(
        self, schedule: Schedule, trace: Trace, params: Params, calls: dict[int, AllocatorCalls], link: Link | None
    ) -> None:
        self.rows, self.trace, self.params, self.calls = schedule.rows(), trace, params, calls
        self.streams = trace.stream.tolist()
        self.copies = max(self.streams, default=0) + 1 if params.copy_stream else None
        self.link, self.engines = link, max(self.streams, default=0) + 2
        self.inputs = _inputs(trace) if params.copy_inputs else {}
        self.task_rows: list[tuple[int, ...]] = []
        self.stretches: list[tuple[int, int, int]] = []
        self.events: list[tuple[int, int]] = []

    def write(self) -> None:
        p, costs = self.params, self.trace.cost_ns.tolist()
        searches = self._searches()
        copies: list[int] = []  # storages whose new version must start as a copy of the old one
        last_step, ends = -1, self._ends()
        for row, (action, step, op, storage, version, _, nbytes, *_) in enumerate(self.rows):
            if row in searches:
                self._spend(row, Host.SEARCH, searches[row])
            if action in (Action.COMPUTE, Action.RECOMPUTE):
                if step > last_step:
                    for s in self.inputs.get(step % self.trace.n_steps, ()):  # op may be one of an earlier step again
                        self._copy(row, TaskKind.COPY_IN, s, p.host_to_device_gb_s)
                for s in copies:
                    self._copy(row, TaskKind.COPY_ON_WRITE, s, p.device_to_device_gb_s)
                copies, last_step = [], step
                kind = TaskKind.RECOMPUTE if action == Action.RECOMPUTE else TaskKind.COMPUTE
                self._launch(row, kind, self.streams[op], costs[op], -1)
                if p.sync_steps and row in ends:
                    self._event(WAIT)
            elif action in (Action.OFFLOAD, Action.FETCH):
                if self.link is not None:
                    kind, stream = (TaskKind.OFFLOAD, 0) if action == Action.OFFLOAD else (TaskKind.FETCH, 1)
                    self._launch(row, kind, self.engines + stream, self.link.alone_ns(nbytes), storage)
                copies = [
                    s for s in copies if action == Action.OFFLOAD or s != storage
                ]  # what was there is copied back
            elif op >= 0 and action in (Action.ALLOC, Action.REFUSE):
                self._call_device(row)
                if action == Action.ALLOC:
                    self._spend(row, Host.ALLOCATOR, p.alloc_ns)
                    if p.copy_on_write and storage >= 0 and version > 0:
                        copies.append(storage)
            elif action == Action.EVICT:
                self._spend(row, Host.SEARCH, p.evict_ns)
            elif action in GIVES_BACK:
                self._spend(row, Host.ALLOCATOR, p.free_ns)
        self._event(NOTHING)

    def _ends(self) -> set[int]:
        """The rows of each step's last op."""
        last: dict[int, int] = {}
        for row, (action, step, *_) in enumerate(self.rows):
            if action in (Action.COMPUTE, Action.RECOMPUTE):
                last[step] = row
        return set(last.values())

    def _searches(self) -> dict[int, int]:
        """What each search costs, by the row of its first eviction, which it comes before."""
        found: dict[int, int] = defaultdict(int)
        price = self.params.search_ns_per_visit
        first = 0
        for row, (action, *_, visits) in enumerate(self.rows):
            if visits:
                found[first if action == Action.ALLOC else row] += round(visits * price)
            if action not in (Action.EVICT, Action.REFUSE):
                first = row + 1
        return found

    def _spend(self, row: int, kind: Host, ns: int) -> None:
        if ns:
            self.stretches.append((row, kind, ns))

    def _event(self, then: int) -> None:
        self.events.append((len(self.stretches), then))

    def _call_device(self, row: int) -> None:
        """cudaFree waits until the GPU has done all that was launched."""
        if row in self.calls:
            calls, p = self.calls[row], self.params
            if calls.frees:
                self._event(WAIT_TO_FREE)
                self._spend(row, Host.SEGMENT_FREE, calls.frees * p.segment_free_ns)
            taking = calls.allocs * p.segment_alloc_ns + calls.failures * p.segment_refuse_ns
            self._spend(row, Host.SEGMENT_ALLOC, taking)

    def _copy(self, row: int, kind: TaskKind, storage: int, gb_s: float) -> None:
        stream = self.streams[self.rows[row][2]] if self.copies is None else self.copies
        self._launch(row, kind, stream, round(int(self.trace.bytes[storage]) / gb_s), storage)

    def _launch(self, row: int, kind: TaskKind, stream: int, cost_ns: int, storage: int) -> None:
        _, step, op, *_ = self.rows[row]
        self._spend(row, Host.DISPATCH, self.params.dispatch_ns)
        self._event(len(self.task_rows))
        self.task_rows.append((row, op, step, kind, stream, cost_ns, storage))

    def tasks(self) -> Tasks:
        row, op, step, kind, stream, cost, storage = np.array(self.task_rows, np.int64).reshape(-1, 7).T
        return Tasks(row, op, step, kind.astype(np.int8), stream, cost, storage)

    def host(self) -> HostWork:
        row, kind, ns = np.array(self.stretches, np.int64).reshape(-1, 3).T
        at, then = np.array(self.events, np.int64).reshape(-1, 2).T
        return HostWork(row, kind.astype(np.int8), ns, at, then)


def _inputs(trace: Trace) -> dict[int, list[int]]:
    """The inputs that each recorded step is the first to read."""
    found: dict[int, list[int]] = defaultdict(list)
    seen: set[int] = set()
    for step, reads, mutates in zip(trace.step.tolist(), trace.reads.rows(), trace.mutates.rows(), strict=True):
        for s in dict.fromkeys(reads + mutates):
            if s not in seen and trace.role[s] == Role.INPUT and trace.alive_at_start[s] and trace.bytes[s]:
                found[step].append(s)
            seen.add(s)
    return found
