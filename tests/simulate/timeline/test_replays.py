"""Random replays in time: the clock, the critical path, streams, copies, calls of the device; laws that always hold."""

from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, CoopsimError, Role
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Host, Params, TaskKind, Timeline, load_params, simulate, summary
from coopsim.simulate.timeline.memory import levels
from coopsim.simulate.timeline.segments import device_calls
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.measure import peak_bytes
from coopsim.trace.requests_of import of_schedule
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from tests.simulate.timeline.cases import FREE, PRICES, conflicts, copying, critical_path, params, replays, two_streams

Case = tuple[Schedule, Trace]
TESTING = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
FEW = settings(TESTING, max_examples=40)
MIB = 1 << 20


@TESTING
@given(replays())
def test_one_stream_without_host_costs_is_the_clock_of_the_replay(case: Case) -> None:
    schedule, trace = case
    t = simulate(schedule, trace, FREE)
    assert t.total_ns == schedule.header["total_cost_ns"] == t.compute_ns + t.recompute_ns
    assert t.recompute_ns == schedule.header["recompute_cost_ns"]
    assert t.start_ns.tolist() == schedule.time_ns[t.tasks.row].tolist()
    assert t.gpu_waited_ns == t.gpu_idle_ns == 0


@TESTING
@given(replays(streams=3), params)
def test_no_shorter_than_the_critical_path(case: Case, p: Params) -> None:
    t = simulate(*case, p)
    assert t.total_ns >= critical_path(t, conflicts(t, *case))
    free = Params(0, 0, 0, 0, 0, len(t.tasks) + 1, **{k: getattr(p, k) for k in vars(p) if "copy" in k or "gb_s" in k})
    assert simulate(*case, free).total_ns == critical_path(t, conflicts(t, *case))


@TESTING
@given(replays(streams=3), params)
def test_a_task_starts_as_soon_as_it_may(case: Case, p: Params) -> None:
    """When it is launched, its stream is free, and all that it depends on is done; and no sooner."""
    t = simulate(*case, p)
    before = conflicts(t, *case)
    free = dict.fromkeys(t.tasks.stream.tolist(), 0)
    for j, stream in enumerate(t.tasks.stream.tolist()):
        assert t.start_ns[j] == max(t.launched_ns[j], free[stream], *(t.end_ns[i] for i in before[j]), 0)
        assert t.end_ns[j] == t.start_ns[j] + t.tasks.cost_ns[j]
        free[stream] = int(t.end_ns[j])


@pytest.mark.parametrize("allocator", ["arena", "cuda-caching"])
@FEW
@given(st.data())
def test_dearer_hosts_and_shorter_queues_never_help(allocator: str, data: st.DataObject) -> None:
    case, p = data.draw(replays(streams=2, allocator=allocator)), data.draw(params)
    t = simulate(*case, p)
    price = data.draw(st.sampled_from(PRICES))
    dear = simulate(*case, changed(p, **{price: getattr(p, price) + data.draw(st.integers(1, 30))}))
    longer = simulate(*case, changed(p, queue_capacity=p.queue_capacity + 1))
    assert (dear.end_ns >= t.end_ns).all()
    assert (np.cumsum(dear.step_ns) >= np.cumsum(t.step_ns)).all()
    assert dear.total_ns >= t.total_ns
    assert (longer.end_ns <= t.end_ns).all()
    assert simulate(*case, changed(p, sync_steps=False)).total_ns <= t.total_ns


@pytest.mark.parametrize("allocator", ["arena", "cuda-caching"])
@FEW
@given(st.data())
def test_the_sums_add_up(allocator: str, data: st.DataObject) -> None:
    case, p = data.draw(replays(streams=3, allocator=allocator)), data.draw(params)
    t = simulate(*case, p)
    assert max(t.gpu_busy_ns, t.host_work_ns) <= t.total_ns <= t.tasks.cost_ns.sum() + t.host_work_ns
    assert 0 <= t.gpu_waited_ns <= t.gpu_idle_ns
    assert 0 <= t.exposed_search_ns <= t.search_ns
    assert t.exposed_calls_ns >= 0
    h = t.host
    assert h.ns[h.kind < Host.QUEUE].sum() == t.host_work_ns
    assert h.ns[h.kind >= Host.QUEUE].sum() == t.host_blocked_ns
    assert (h.begin_ns[1:] == h.begin_ns[:-1] + h.ns[:-1]).all()  # the host does one thing at a time, without gaps
    assert (t.step_ns >= 0).all()
    for stream in set(t.tasks.stream.tolist()):
        on = t.tasks.stream == stream
        assert (t.start_ns[on][1:] >= t.end_ns[on][:-1]).all()
    assert t.gpu_busy_ns == len({ns for a, b in zip(t.start_ns, t.end_ns, strict=True) for ns in range(a, b)})


def test_streams_by_hand() -> None:
    t = simulate(*two_streams(), FREE)
    assert t.waits == [(), (0,), (), (1,)]
    assert t.start_ns.tolist() == [0, 100, 100, 150]
    assert (t.total_ns, t.gpu_busy_ns) == (160, 160)
    assert simulate(*two_streams(), changed(FREE, dispatch_ns=7)).launched_ns.tolist() == [7, 14, 21, 28]


def test_memory_of_another_stream_is_waited_for() -> None:
    """Where y takes the place of x, which stream 0 still writes; not where it has a place of its own."""
    for x_goes_first, start in ((True, 100), (False, 0)):
        b = TraceBuilder()
        x, y = b.storage(512), b.storage(512)
        b.op("f", creates=[x], cost_ns=100)
        if x_goes_first:
            b.free(x)
        b.op("g", creates=[y], cost_ns=10, stream=1)
        trace = b.build({})
        t = simulate(replay(trace, "coop", 1024, steps=1), trace, FREE)
        assert t.start_ns.tolist() == [0, start]
    with pytest.raises(CoopsimError, match="several streams need a schedule with addresses"):
        simulate(replay(trace, "dtr", 512, "counter", steps=1), trace, FREE)


def test_copies_by_hand() -> None:
    trace = copying()
    schedule = replay(trace, "dtr-oneflow", 1 << 20, steps=2)
    p = changed(FREE, copy_inputs=True, copy_on_write=True, host_to_device_gb_s=10, device_to_device_gb_s=100)
    t = simulate(schedule, trace, p)
    step = [TaskKind.COPY_IN, TaskKind.COMPUTE, TaskKind.COPY_ON_WRITE, TaskKind.COMPUTE, TaskKind.COMPUTE]
    assert t.tasks.kind.tolist() == step * 2
    assert t.tasks.cost_ns.tolist() == [300, 100, 20, 20, 5] * 2
    assert (t.copy_ns, t.total_ns) == (640, 890)
    assert (summary(t)["copies"], summary(t)["ops"]) == (4, 6)
    alone = simulate(schedule, trace, changed(p, copy_stream=True))
    assert alone.tasks.stream.tolist() == [1, 0, 1, 0, 0] * 2
    # The second step's copy overwrites the input, which the first step reads to its end.
    assert alone.start_ns.tolist() == t.start_ns.tolist()
    in_place = simulate(replay(trace, "coop", 1 << 20, steps=1), trace, p)
    assert in_place.tasks.kind.tolist() == [TaskKind.COPY_IN, TaskKind.COMPUTE, TaskKind.COMPUTE, TaskKind.COMPUTE]


def test_a_copy_on_its_own_stream_runs_beside_ops_that_do_not_need_it() -> None:
    b = TraceBuilder()
    x, y, z = b.storage(3000, Role.INPUT, alive_at_start=True), b.storage(512), b.storage(512)
    b.op("f", creates=[y], cost_ns=100)
    b.op("g", reads=[x, y], creates=[z], cost_ns=5)
    trace = b.build({})
    schedule = replay(trace, "coop", 1 << 20, steps=1)
    p = changed(FREE, copy_inputs=True, host_to_device_gb_s=30)
    assert simulate(schedule, trace, p).start_ns.tolist() == [0, 100, 200]
    assert simulate(schedule, trace, changed(p, copy_stream=True)).start_ns.tolist() == [0, 0, 100]


def test_cuda_free_waits_for_the_gpu() -> None:
    """Two large values that do not fit at once: the second's cudaMalloc fails, the first's segment goes back."""
    b = TraceBuilder()
    x, y = b.storage(30 * MIB), b.storage(40 * MIB)
    b.op("f", creates=[x], cost_ns=1000)
    b.free(x)
    b.op("g", creates=[y], cost_ns=100)
    trace = b.build({})
    schedule = replay(trace, "dtr", 50 * MIB, "cuda-caching", steps=1)
    p = changed(FREE, dispatch_ns=1, segment_alloc_ns=10, segment_free_ns=20, segment_refuse_ns=40)
    t = simulate(schedule, trace, p)
    made = [(c.allocs, c.failures, c.frees) for c in t.calls.values()]
    assert made == [(1, 0, 0), (1, 1, 1)]
    assert t.launched_ns.tolist() == [11, 1011 + 20 + 10 + 40 + 1]
    assert (t.device_calls_ns, t.exposed_calls_ns, t.total_without_calls_ns) == (80, 81, 1101)
    assert t.host.kind.tolist() == [
        *(Host.SEGMENT_ALLOC, Host.DISPATCH, Host.SYNC, Host.SEGMENT_FREE, Host.SEGMENT_ALLOC, Host.DISPATCH)
    ]


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "garbage_collection_threshold:0.5"])
@pytest.mark.parametrize("ratio", [1.2, 0.5])
def test_calls_are_those_that_the_allocator_counts(bert: Trace, conf: str, ratio: float) -> None:
    schedule = replay(bert, "dtr", int(ratio * peak_bytes(bert, 512)), cuda_caching(conf=conf), steps=2)
    calls = device_calls(schedule)
    alone = CachingAllocator(schedule.header["torch"], conf, schedule.header["budget_bytes"])
    alone.run(of_schedule(schedule).rows)
    counted = alone.statistics()
    assert sum(c.allocs for c in calls.values()) == counted["num_device_alloc"] > 0
    assert sum(c.frees for c in calls.values()) == counted["num_device_free"]
    assert sum(c.failures for c in calls.values()) == counted["num_alloc_retries"] + counted["num_ooms"]
    assert (counted["num_device_free"] > 0) == (ratio < 1)
    reserved = [level.reserved for _, level in levels(schedule, calls)]
    assert max(reserved) == schedule.header["peak_reserved_bytes"]


def test_an_edited_schedule_of_the_caching_allocator_is_refused() -> None:
    trace = make("synth:chain")
    schedule = replay(trace, "dtr", int(0.8 * peak_bytes(trace, 512)), "cuda-caching", steps=1)
    row = int(np.flatnonzero(schedule.action == Action.ALLOC)[-1])
    address = schedule.address.copy()
    address[schedule.address == address[row]] += 512
    with pytest.raises(CoopsimError, match="is not what the caching allocator of PyTorch"):
        simulate(changed(schedule, address=address), trace)


@pytest.mark.parametrize("allocator", ["arena", "counter", "cuda-caching"])
@FEW
@given(st.data())
def test_levels_of_memory_are_those_of_the_pieces(allocator: str, data: st.DataObject) -> None:
    """The largest hole by looking at all the gaps, each time anew."""
    schedule, _ = data.draw(replays(allocator=allocator))
    calls = device_calls(schedule)
    after = dict(levels(schedule, calls))
    size = schedule.header["budget_bytes"]
    live: dict[int, int] = {}
    segments: tuple[tuple[int, int], ...] = () if allocator == "cuda-caching" else ((0, size),)
    used = 0
    for row, (action, *_, address, nbytes, _, _) in enumerate(schedule.rows()):
        segments = calls[row].segments if row in calls else segments
        if action == Action.ALLOC:
            used += nbytes
            live[address] = nbytes
        elif action in (Action.EVICT, Action.FREE, Action.RELEASE):
            used -= nbytes
            live.pop(address, None)
        elif row not in calls:
            assert row not in after
            continue
        held = sorted(live.items())
        gaps = [size - sum(n for _, n in segments)]
        for start, length in segments:
            at = start
            for a, n in [(a, n) for a, n in held if start <= a < start + length] + [(start + length, 0)]:
                gaps.append(a - at)
                at = a + n
        if allocator == "counter":
            gaps = [size - used]
        assert (after[row].used, after[row].free, after[row].largest_hole) == (used, size - used, max(gaps))
    assert max((level.used for level in after.values()), default=0) == schedule.header["peak_bytes"]


def test_a_schedule_that_takes_what_is_taken_has_no_levels() -> None:
    schedule, _ = two_streams()
    with pytest.raises(CoopsimError, match="takes bytes that are not free"):
        list(levels(changed(schedule, address=np.zeros_like(schedule.address)), {}))


@FEW
@given(replays(streams=2))
def test_shipped_prices_take_longer_than_none(case: Case) -> None:
    """Not one of the shipped parameters makes a step cheaper than it is without a host."""
    assume(case[0].header["ops_run"])
    dear: Timeline = simulate(*case, load_params())
    assert dear.total_ns > simulate(*case, changed(FREE, queue_capacity=1024)).total_ns
