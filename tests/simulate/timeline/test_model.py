"""The timeline: host, launch queue and stream, held against the replay's clock, a plain recurrence and its laws."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopsim.base.types import Action, CoopsimError, Phase
from coopsim.simulate import timeline
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Params, load_params, measured, simulate
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule

FREE = Params(dispatch_ns=0, alloc_ns=0, free_ns=0, search_ns_per_visit=0, evict_ns=0, queue_capacity=4)
PRICES = ("dispatch_ns", "alloc_ns", "free_ns", "search_ns_per_visit", "evict_ns")


def chain(layers: int = 12) -> Trace:
    """A chain of ops forward and back, activations kept: under a small budget it must evict and recompute."""
    b = TraceBuilder()
    x = [b.storage(1024, alive_at_start=True)]
    for i in range(layers):
        x.append(b.storage(1024))
        b.op("f", reads=[x[-2]], creates=[x[-1]], cost_ns=1000 + 37 * i)
    grad = x[-1]
    for i in reversed(range(layers)):
        new = b.storage(1024)
        b.op("g", reads=[x[i], grad], creates=[new], cost_ns=2000 + 41 * i, phase=Phase.BACKWARD)
        b.free(grad)
        grad = new
        if 0 < i < layers:
            b.free(x[i])
    b.free(grad)
    return b.build({"model": "chain"})


def squeezed(policy: str = "dtr-oneflow", steps: int = 3) -> tuple[Schedule, Trace]:
    trace = chain()
    return replay(trace, policy, int(0.6 * peak_bytes(trace, 512)), steps=steps), trace


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, Trace]:
    """Any sequence of actions; the timeline does not ask whether they make sense."""
    costs = draw(st.lists(st.integers(0, 50), min_size=1, max_size=6))
    b = TraceBuilder()
    for cost in costs:
        b.op("f", cost_ns=cost)
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(list(Action)), st.integers(0, len(costs) - 1), st.integers(0, 20), st.booleans()),
            max_size=40,
        )
    )
    action, op, visits, new_step = (np.array([r[k] for r in rows], np.int64) for k in range(4))
    nothing = np.zeros(len(rows), np.int64)
    log = Schedule(action.astype(np.int8), np.cumsum(new_step), op, *[nothing] * 5, visits=visits)
    return log, b.build({})


prices = st.integers(0, 30)
params = st.builds(Params, prices, prices, prices, st.floats(0, 30), prices, st.integers(1, 5), st.booleans())


def test_without_host_cost_it_ends_when_the_replays_clock_does() -> None:
    schedule, trace = squeezed()
    t = simulate(schedule, trace, FREE)
    assert t.recompute.sum() == schedule.header["recomputes"] > 0
    assert t.total_ns == t.gpu_busy_ns == schedule.header["total_cost_ns"]
    assert t.gpu_idle_ns == 0
    assert t.hidden_fraction is None
    assert len(t.step_ns) == 3
    assert t.step_ns.sum() == t.total_ns


def test_by_hand() -> None:
    """Two ops; a search of 3 visits and an eviction before the second, which the first op's 100 ns hide in part."""
    b = TraceBuilder()
    b.op("f", cost_ns=100)
    b.op("g", cost_ns=10)
    rows = [  # action, op, visits
        (Action.ALLOC, -1, 0),  # what is there at the start is placed before the clock starts
        (Action.ALLOC, 0, 0),
        (Action.COMPUTE, 0, 0),
        (Action.FREE, 0, 0),
        (Action.EVICT, 1, 0),
        (Action.ALLOC, 1, 3),
        (Action.COMPUTE, 1, 0),
        (Action.RELEASE, 1, 0),
    ]
    action, op, visits = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros(len(rows), np.int64)
    log = Schedule(action.astype(np.int8), nothing, op, *[nothing] * 5, visits=visits)
    t = simulate(log, b.build({}), Params(5, 2, 1, 40, 20, 8))
    assert t.launched_ns.tolist() == [7, 7 + 1 + 20 + 2 + 120 + 5]
    assert t.start_ns.tolist() == [7, 155]
    assert t.end_ns.tolist() == [107, 165]
    assert t.search_ns == 140
    assert t.total_without_search_ns == 117
    assert t.hidden_fraction == 1 - 48 / 140
    assert t.gpu_waited_ns == t.gpu_idle_ns == 7 + 48
    assert t.host_work_ns == 156
    assert t.host_blocked_ns == 0


def by_recurrence(log: Schedule, trace: Trace, p: Params) -> tuple[list[int], list[int], int]:
    """When ops are launched and end, and the total, without events: row by row, from the rule of the queue alone."""
    launched: list[int] = []
    start: list[int] = []
    end: list[int] = []
    now, last_step = 0, -1
    for action, step, op, *_, visits in log.rows():
        work = round(visits * p.search_ns_per_visit)
        work += {Action.EVICT: p.evict_ns, Action.FREE: p.free_ns, Action.RELEASE: p.free_ns}.get(action, 0)
        work += p.alloc_ns if action == Action.ALLOC and op >= 0 else 0
        if action in (Action.COMPUTE, Action.RECOMPUTE):
            if p.sync_steps and launched and step > last_step:
                now = max(now, end[-1] + now - launched[-1])
            now += work + p.dispatch_ns
            if len(start) >= p.queue_capacity:
                now = max(now, start[-p.queue_capacity])
            launched.append(now)
            start.append(max(now, end[-1] if end else 0))
            end.append(start[-1] + int(trace.cost_ns[op]))
            last_step = step
        else:
            now += work
    if p.sync_steps and launched:
        now = max(now, end[-1] + now - launched[-1])
    return launched, end, max([now, *end])


@given(schedules(), params)
def test_it_is_the_recurrence_of_a_queue(case: tuple[Schedule, Trace], p: Params) -> None:
    t = simulate(*case, p)
    assert (t.launched_ns.tolist(), t.end_ns.tolist(), t.total_ns) == by_recurrence(*case, p)


@given(schedules(), params)
def test_the_stream_runs_one_op_at_a_time(case: tuple[Schedule, Trace], p: Params) -> None:
    t = simulate(*case, p)
    assert (t.end_ns - t.start_ns == case[1].cost_ns[t.op]).all()
    assert (t.start_ns[1:] >= t.end_ns[:-1]).all()
    assert (t.start_ns >= t.launched_ns).all()


@given(schedules(), params)
def test_it_is_never_shorter_than_either_side_nor_longer_than_both(case: tuple[Schedule, Trace], p: Params) -> None:
    t = simulate(*case, p)
    assert max(t.gpu_busy_ns, t.host_work_ns) <= t.total_ns <= t.gpu_busy_ns + t.host_work_ns
    assert 0 <= t.gpu_waited_ns <= t.gpu_idle_ns
    assert t.host_blocked_ns >= 0
    assert t.host_work_ns + t.host_blocked_ns <= t.total_ns
    if t.hidden_fraction is not None:
        assert 0 <= t.hidden_fraction <= 1


@given(schedules(), params, st.sampled_from(PRICES), st.integers(1, 30))
def test_more_host_cost_never_makes_it_faster(case: tuple[Schedule, Trace], p: Params, price: str, more: int) -> None:
    before, after = simulate(*case, p), simulate(*case, replace(p, **{price: getattr(p, price) + more}))
    assert after.total_ns >= before.total_ns
    assert (after.end_ns >= before.end_ns).all()


@given(schedules(), params)
def test_a_longer_queue_and_no_sync_never_make_it_slower(case: tuple[Schedule, Trace], p: Params) -> None:
    before = simulate(*case, p).total_ns
    assert simulate(*case, replace(p, queue_capacity=p.queue_capacity + 1)).total_ns <= before
    assert simulate(*case, replace(p, sync_steps=False)).total_ns <= before


def test_a_search_is_hidden_behind_a_long_queue_and_exposed_by_a_sync() -> None:
    schedule, trace = squeezed()
    cheap = replace(FREE, search_ns_per_visit=5, queue_capacity=1024)
    assert simulate(schedule, trace, cheap).hidden_fraction == pytest.approx(1, abs=0.01)
    dear = replace(cheap, search_ns_per_visit=5000)
    alone, synced = (simulate(schedule, trace, replace(dear, sync_steps=s)) for s in (False, True))
    assert synced.hidden_fraction is not None
    assert alone.hidden_fraction is not None
    assert synced.hidden_fraction <= alone.hidden_fraction < 1


def test_the_price_of_a_visit_is_the_measured_one() -> None:
    schedule, _ = squeezed()
    ours = measured(replace(schedule, header={"search_ns": 900, "search_visits": 300}), replace(FREE, evict_ns=7))
    assert (ours.search_ns_per_visit, ours.evict_ns) == (3.0, 0)
    for header in ({}, {"search_ns": None, "search_visits": 3}, {"search_ns": 0, "search_visits": 0}):
        assert measured(replace(schedule, header=header), FREE) == FREE


def test_the_summary_is_plain_numbers() -> None:
    schedule, trace = squeezed()
    for t in (simulate(schedule, trace), simulate(schedule, trace, FREE)):
        row = timeline.summary(t)
        assert all(v is None or type(v) in (int, float) for v in row.values())
        assert row["ops"] == schedule.header["ops_run"]


def test_a_schedule_without_ops() -> None:
    empty = np.zeros(0, np.int64)
    t = simulate(Schedule(empty.astype(np.int8), *[empty] * 8), chain())
    assert (t.total_ns, t.gpu_waited_ns, t.hidden_fraction) == (0, 0, None)
    assert timeline.summary(t)["step_ns"] is None


def test_another_trace_is_refused() -> None:
    schedule, _ = squeezed()
    with pytest.raises(CoopsimError, match="was not made from this trace"):
        simulate(schedule, chain(5))


def test_shipped_parameters_say_where_they_come_from() -> None:
    import tomllib
    from importlib.resources import files

    shipped = tomllib.loads(files("coopsim").joinpath("simulate/timeline/params.toml").read_text(encoding="utf-8"))
    assert set(shipped) == {f.name for f in fields(Params)}
    for entry in shipped.values():
        assert entry["source"].split(":")[0] in ("assumption", "measured", "measured elsewhere", "observed")
    assert load_params().queue_capacity == 1024


def test_own_parameters(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[dispatch_ns]\nvalue = 4000\nsource = "measured"\n')
    assert load_params(path) == replace(load_params(), dispatch_ns=4000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[dispatch_n]\nvalue = 1\n", "did you mean dispatch_ns"),
        ("dispatch_ns = 1\n", "needs a table"),
        ("[dispatch_ns]\nvalue = 1.5\n", "is not an integer"),
        ("[dispatch_ns]\nvalue = -1\n", "at least 0"),
        ("[queue_capacity]\nvalue = 0\n", "at least 1"),
        ("[sync_steps]\nvalue = 1\n", "is not true or false"),
        ("[search_ns_per_visit]\nvalue = nan\n", "finite"),
        ("[search_ns_per_visit]\nvalue = true\n", "is not a number"),
        ("[", "not a file of timeline parameters"),
    ],
)
def test_bad_parameters_are_refused(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(CoopsimError, match=message):
        load_params(path)


def test_a_missing_file_of_parameters_is_refused(tmp_path) -> None:
    with pytest.raises(CoopsimError, match="not a file of timeline parameters"):
        load_params(tmp_path / "none.toml")
