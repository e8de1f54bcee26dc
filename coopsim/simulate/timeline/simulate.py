"""From a schedule to a timeline: the simulation, and two more with less of the host's work, to tell what it costs."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import CoopsimError
from coopsim.cards.link import of_header
from coopsim.simulate.timeline.engine import TaskTimes, run
from coopsim.simulate.timeline.order import copy_waits, waits
from coopsim.simulate.timeline.params import Params, load_params
from coopsim.simulate.timeline.segments import AllocatorCalls, device_calls
from coopsim.simulate.timeline.work import NOTHING, TRANSFERS, WAIT_TO_FREE, Host, HostWork, TaskKind, Tasks, work
from coopsim.trace.schedule import Schedule
from coopsim.trace.table import Trace

Ints = NDArray[np.int64]
_COPIES = (TaskKind.COPY_IN, TaskKind.COPY_ON_WRITE)
_DEVICE = (Host.SEGMENT_ALLOC, Host.SEGMENT_FREE)


@dataclass(frozen=True, eq=False)
class HostTime:
    """What the host did, a row per stretch of its time, in order: what for (work.Host), for which row of the schedule
    (-1: a wait), from when and how long, in ns."""

    kind: NDArray[np.int8]
    row: Ints
    begin_ns: Ints
    ns: Ints


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each task ran, a row per task in the order of launch; times in ns from the start of the first step.

    Columns: `op` indexes the trace's ops, `step` counts training steps, `kind` (work.TaskKind) tells ops, ops run again
    and copies apart, `stream`; `row` is the schedule's. The host put the task into its stream's queue at `launched_ns`,
    the GPU ran it from `start_ns` to `end_ns`, after those of other streams that it must wait for (`waits`). `step_ns`,
    a number per step, is the time from when one step's work is all done to when the next one's is.

    Sums: `compute_ns`, `recompute_ns`, `copy_ns` make up the time in which the GPU runs anything; where streams run
    side by side, time counts for the first of these. `host_work_ns` contains `search_ns`, and `device_calls_ns` for
    cudaMalloc and cudaFree; `host_blocked_ns` is what the host waited, for a place in the queue or for the GPU.
    `total_without_search_ns` is the total of the same run with searches that cost nothing, `total_without_calls_ns`
    that of the same without calls of the device either, `total_without_copies_ns` that of the same again with copies to
    the host and back that take no time.
    """

    tasks: Tasks
    waits: list[tuple[int, ...]]
    launched_ns: Ints
    start_ns: Ints
    end_ns: Ints
    host: HostTime
    calls: dict[int, AllocatorCalls]
    step_ns: Ints
    total_ns: int
    compute_ns: int
    recompute_ns: int
    copy_ns: int
    host_work_ns: int
    host_blocked_ns: int
    search_ns: int
    device_calls_ns: int
    total_without_search_ns: int
    total_without_calls_ns: int
    total_without_copies_ns: int
    params: Params

    @property
    def op(self) -> Ints:
        return self.tasks.op

    @property
    def recompute(self) -> NDArray[np.bool_]:
        """Which tasks are ops run again."""
        again: NDArray[np.bool_] = self.tasks.kind == TaskKind.RECOMPUTE
        return again

    @property
    def gpu_busy_ns(self) -> int:
        """Time in which some stream ran something."""
        return self.compute_ns + self.recompute_ns + self.copy_ns

    @property
    def gpu_idle_ns(self) -> int:
        """Time in which the GPU ran nothing."""
        return self.total_ns - self.gpu_busy_ns

    @property
    def gpu_waited_ns(self) -> int:
        """The part of the GPU's idle time that it waited for the host to launch a next task."""
        return int(self.end_ns.max(initial=0)) - self.gpu_busy_ns

    @property
    def exposed_search_ns(self) -> int:
        """What all would take less if searches cost nothing."""
        return self.total_ns - self.total_without_search_ns

    @property
    def exposed_calls_ns(self) -> int:
        """What all, searches apart, would take less without cudaMalloc and cudaFree."""
        return self.total_without_search_ns - self.total_without_calls_ns

    @property
    def stall_ns(self) -> int:
        """What all, searches and calls of the device apart, would take less without copies to the host and back."""
        return self.total_without_calls_ns - self.total_without_copies_ns

    @property
    def hidden_fraction(self) -> float | None:
        """The part of the search time that the GPU hides: 1 - growth of the total / search time. None: no search."""
        return 1.0 - self.exposed_search_ns / self.search_ns if self.search_ns else None


def simulate(schedule: Schedule, trace: Trace, params: Params | None = None) -> Timeline:
    """Run the schedule's actions on the simulated host and GPU.

    trace: the one that the schedule was made from (CoopsimError if not). params: `load_params()` if left out. Ops go to
    the streams that the trace has them on. A replay that did not end well is simulated as far as it came.
    """
    if schedule.header.get("trace", trace.content_hash) != trace.content_hash:
        raise CoopsimError(f"the schedule was not made from this trace ({trace.label}): their content hashes differ")
    params = params or load_params()
    calls = device_calls(schedule)
    link = of_header(schedule.header)
    tasks, host = work(schedule, trace, params, calls, link)
    before = waits(tasks, schedule, trace)
    if link is not None:
        copies = copy_waits(tasks, schedule, trace)
        before = [tuple(sorted({*a, *b})) for a, b in zip(before, copies, strict=True)]
    total, searches, on_device = sum(host.sums()), _spent(host, Host.SEARCH), _spent(host, *_DEVICE)

    def once(*without: Host, copies: bool = True) -> TaskTimes:
        todo = tasks if copies else replace(tasks, cost_ns=np.where(np.isin(tasks.kind, TRANSFERS), 0, tasks.cost_ns))
        called = np.isin(host.then, WAIT_TO_FREE) & bool(set(_DEVICE) <= set(without))
        then = np.where(called, NOTHING, host.then)
        return run(todo, host.sums(*without), then.tolist(), before, params.queue_capacity, link)

    full = once()
    no_search = once(Host.SEARCH) if searches else full
    no_calls = once(Host.SEARCH, *_DEVICE) if calls else no_search
    copied = bool(np.isin(tasks.kind, TRANSFERS).any())
    no_copies = once(Host.SEARCH, *_DEVICE, copies=False) if copied else no_calls
    busy = _busy(tasks, full)
    return Timeline(
        tasks=tasks,
        waits=before,
        launched_ns=full.launched,
        start_ns=full.start,
        end_ns=full.end,
        host=_host_time(host, full),
        calls=calls,
        step_ns=_steps(tasks, full),
        total_ns=full.total_ns,
        compute_ns=busy[0],
        recompute_ns=busy[1],
        copy_ns=busy[2],
        host_work_ns=total,
        host_blocked_ns=full.host_end_ns - total,
        search_ns=searches,
        device_calls_ns=on_device,
        total_without_search_ns=no_search.total_ns,
        total_without_calls_ns=no_calls.total_ns,
        total_without_copies_ns=no_copies.total_ns,
        params=params,
    )


def summary(timeline: Timeline) -> dict[str, int | float | None]:
    """The figures of a timeline, for JSON: counts, ns, and ratios; None where there was no search or no step."""
    t = timeline
    return {
        "ops": int((~np.isin(t.tasks.kind, _COPIES + TRANSFERS)).sum()),
        "recomputes": int(t.recompute.sum()),
        "copies": int(np.isin(t.tasks.kind, _COPIES).sum()),
        "offloads": int((t.tasks.kind == TaskKind.OFFLOAD).sum()),
        "fetches": int((t.tasks.kind == TaskKind.FETCH).sum()),
        "streams": len(set(t.tasks.stream.tolist())),
        "device_allocs": sum(c.allocs for c in t.calls.values()),
        "device_failures": sum(c.failures for c in t.calls.values()),
        "device_frees": sum(c.frees for c in t.calls.values()),
        "steps": len(t.step_ns),
        "step_ns": float(t.step_ns.mean()) if len(t.step_ns) else None,
        "total_ns": t.total_ns,
        "gpu_busy_ns": t.gpu_busy_ns,
        "compute_ns": t.compute_ns,
        "recompute_ns": t.recompute_ns,
        "copy_ns": t.copy_ns,
        "stall_ns": t.stall_ns,
        "gpu_idle_ns": t.gpu_idle_ns,
        "gpu_waited_ns": t.gpu_waited_ns,
        "host_work_ns": t.host_work_ns,
        "host_blocked_ns": t.host_blocked_ns,
        "device_calls_ns": t.device_calls_ns,
        "exposed_device_calls_ns": t.exposed_calls_ns,
        "search_ns": t.search_ns,
        "exposed_search_ns": t.exposed_search_ns,
        "hidden_fraction": t.hidden_fraction,
    }


def _spent(host: HostWork, *kinds: Host) -> int:
    return int(host.ns[np.isin(host.kind, kinds)].sum())


def _steps(tasks: Tasks, done: TaskTimes) -> Ints:
    """From when all work of one step is done to when all of the next one's is."""
    last = np.append(np.diff(tasks.step) > 0, np.ones(min(len(tasks), 1), np.bool_))
    lengths: Ints = np.diff(np.maximum.accumulate(done.end)[last], prepend=0)
    return lengths


def _busy(tasks: Tasks, done: TaskTimes) -> tuple[int, int, int]:
    """Time in which an op runs; in which only ops run again, and copies, do; in which only copies do."""
    first = _covered(tasks, done, (TaskKind.COMPUTE,))
    ops = _covered(tasks, done, (TaskKind.COMPUTE, TaskKind.RECOMPUTE))
    return first, ops - first, _covered(tasks, done, tuple(TaskKind)) - ops


def _covered(tasks: Tasks, done: TaskTimes, kinds: tuple[TaskKind, ...]) -> int:
    """The length of the union of the tasks' times."""
    which = np.isin(tasks.kind, kinds)
    order = np.argsort(done.start[which], kind="stable")
    start, end = done.start[which][order], done.end[which][order]
    seen = np.maximum.accumulate(np.append(0, end))[:-1]  # until when anything before has run
    return int(np.maximum(end - np.maximum(start, seen), 0).sum()) if len(end) else 0


def _host_time(host: HostWork, done: TaskTimes) -> HostTime:
    """Stretches of work in their places, and what the host waited in between."""
    event = np.repeat(np.arange(len(host.at)), np.diff(host.at, prepend=0))  # of each stretch, the event after it
    spent = np.concatenate([[0], np.cumsum(host.ns)])
    first = np.append(0, host.at[:-1])
    begin = done.begin[event] + spent[:-1] - spent[first][event]
    ready = done.begin + np.array(host.sums(), np.int64)
    waited = np.flatnonzero(done.over > ready)
    kind = np.where(host.then[waited] >= 0, Host.QUEUE, Host.SYNC)
    kinds = np.append(host.kind, kind.astype(np.int8))
    rows = np.append(host.row, np.full(len(waited), -1))
    begins, lengths = np.append(begin, ready[waited]), np.append(host.ns, (done.over - ready)[waited])
    order = np.lexsort((np.arange(len(begins)), begins))
    return HostTime(kinds[order], rows[order], begins[order], lengths[order])
