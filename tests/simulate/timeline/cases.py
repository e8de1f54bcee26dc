"""Replays to put in time, and their dependencies found a second way."""

from dataclasses import replace as changed
from itertools import product

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from coopsim.base.types import Action, Role
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Params, TaskKind, Timeline
from coopsim.study.validate.values import TraceValues
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.schedule import GIVES_BACK, Schedule
from tests.strategies import budget, dice, policies, repeatable, traces

FREE = Params(dispatch_ns=0, alloc_ns=0, free_ns=0, search_ns_per_visit=0, evict_ns=0, queue_capacity=4)
PRICES = ("dispatch_ns", "alloc_ns", "free_ns", "search_ns_per_visit", "evict_ns")
PRICES += ("segment_alloc_ns", "segment_free_ns", "segment_refuse_ns")

prices = st.integers(0, 30)
params = st.builds(
    Params,
    dispatch_ns=prices,
    alloc_ns=prices,
    free_ns=prices,
    search_ns_per_visit=st.floats(0, 30),
    evict_ns=prices,
    queue_capacity=st.integers(1, 5),
    sync_steps=st.booleans(),
    segment_alloc_ns=prices,
    segment_free_ns=prices,
    segment_refuse_ns=prices,
    copy_inputs=st.booleans(),
    copy_on_write=st.booleans(),
    copy_stream=st.booleans(),
    host_to_device_gb_s=st.sampled_from([100, 333.0]),
    device_to_device_gb_s=st.sampled_from([200, 1000.0]),
)


@st.composite
def replays(draw: st.DrawFn, streams: int = 1, allocator: str = "arena") -> tuple[Schedule, Trace]:
    """A random trace, its ops on up to so many streams, replayed by a random policy in a tight memory."""
    trace, policy, rolls = draw(traces()), draw(policies()), draw(dice(3))
    if streams > 1:
        on = draw(st.lists(st.integers(0, streams - 1), min_size=trace.n_ops, max_size=trace.n_ops))
        trace = changed(trace, stream=np.array(on, np.int64))
    granule = 1 if allocator == "counter" else 512
    nbytes = budget(trace, granule, rolls)
    if allocator == "cuda-caching":
        nbytes = (2 << 20) * (1 + rolls.roll(3))  # segments are of 2 MiB
    steps = 1 + rolls.roll(3) if repeatable(trace) else trace.n_steps
    schedule = replay(trace, policy, nbytes, allocator, steps=steps)
    assume(len(schedule) > 0)
    return schedule, trace


def conflicts(t: Timeline, schedule: Schedule, trace: Trace) -> list[list[int]]:
    """For each task all earlier ones whose bytes it reads or overwrites, or that read what it overwrites.

    By the judge's own reading of the program, and by comparing every task with every other.
    """
    program = TraceValues(trace)
    place: dict[tuple[int, int], range] = {}
    inside: dict[tuple[int, int], range] = {}
    touched: list[tuple[list[range], list[range]]] = []
    rows = dict.fromkeys(t.tasks.row.tolist(), 0)
    of_row = {row: [k for k, r in enumerate(t.tasks.row.tolist()) if r == row] for row in rows}
    for row, (action, _, op, storage, version, address, nbytes, *_) in enumerate(schedule.rows()):
        held = place if storage >= 0 else inside
        if action in (Action.ALLOC, Action.MOVE):
            held[storage, version] = range(address, address + nbytes)
        elif action in GIVES_BACK:
            held.pop((storage, version), None)
        for task in of_row.get(row, ()):
            s = int(t.tasks.storage[task])
            made = dict(program.writes[op])
            if t.tasks.kind[task] == TaskKind.COPY_IN:
                touched.append(([], [place[s, 0]]))
            elif t.tasks.kind[task] == TaskKind.COPY_ON_WRITE:
                touched.append(([place[s, made[s] - 1]], [place[s, made[s]]]))
            else:
                reads = [place[v] for v in program.reads[op]]
                writes = [place.get((s, v), place.get((s, v - 1))) for s, v in program.writes[op]]
                aside = [place[s, v] for s, v in program.reads[op] if s in trace.mutates[op] and s not in made]
                touched.append((reads, [*writes, *aside, *inside.values()]))  # type: ignore[list-item]
    found = []
    for j, (reads, writes) in enumerate(touched):
        before = [i for i in range(j) if _meet(touched[i][1], reads + writes) or _meet(touched[i][0], writes)]
        found.append(before)
    return found


def _meet(these: list[range], those: list[range]) -> bool:
    return any(max(a.start, b.start) < min(a.stop, b.stop) for a, b in product(these, those))


def critical_path(t: Timeline, before: list[list[int]]) -> int:
    """The longest chain of tasks that depend on each other, or follow each other on a stream."""
    longest: list[int] = []
    for j, stream in enumerate(t.tasks.stream.tolist()):
        same = [i for i in range(j) if t.tasks.stream[i] == stream]
        longest.append(int(t.tasks.cost_ns[j]) + max((longest[i] for i in [*same, *before[j]]), default=0))
    return max(longest, default=0)


def two_streams() -> tuple[Schedule, Trace]:
    """x on stream 0, then y and z, each from x, on streams 1 and 0."""
    b = TraceBuilder()
    x, y, z = b.storage(1000), b.storage(1000), b.storage(1000)
    b.op("f", creates=[x], cost_ns=100)
    b.op("g", reads=[x], creates=[y], cost_ns=50, stream=1)
    b.op("h", reads=[x], creates=[z], cost_ns=30)
    b.free(x)
    b.op("i", reads=[y, z], cost_ns=10)
    trace = b.build({})
    return replay(trace, "coop", 4096, steps=1), trace


def copying() -> Trace:
    """An input of 3000 bytes; an op on it; one in place on the result, which is still needed as it was."""
    b = TraceBuilder()
    x, y = b.storage(3000, Role.INPUT, alive_at_start=True), b.storage(2000)
    b.op("f", reads=[x], creates=[y], cost_ns=100)
    b.op("relu_", mutates=[y], cost_ns=20)
    b.op("g", reads=[x, y], cost_ns=5)
    return b.build({})
