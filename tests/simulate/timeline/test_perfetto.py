"""The Perfetto file: by the rules of the format, and by the answers of Perfetto's own trace processor."""

import gzip
import json
from collections import defaultdict
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.base.types import Action
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Params, TaskKind, Timeline, load_params, perfetto, simulate
from coopsim.simulate.timeline.memory import levels
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import GIVES_BACK, Schedule, save
from tests.simulate.timeline.cases import copying, two_streams

ALLOCATORS = ("arena", "counter", "cuda-caching")


def case(trace: Trace, allocator: str) -> tuple[Timeline, Schedule, Trace]:
    schedule = replay(trace, "dtr-oneflow", int(0.5 * peak_bytes(trace, 512)), allocator, steps=2)
    return simulate(schedule, trace, load_params()), schedule, trace


def small() -> list[tuple[Timeline, Schedule, Trace]]:
    """Several streams; copies; a host that costs nothing."""
    p = changed(load_params(), copy_inputs=True, copy_on_write=True, copy_stream=True)
    copies = replay(copying(), "dtr-oneflow", 1 << 20, steps=2)
    streams, trace = two_streams()
    free = Params(0, 0, 0, 0, 0, 8)
    return [
        (simulate(copies, copying(), p), copies, copying()),
        (simulate(streams, trace), streams, trace),
        (simulate(streams, trace, free), streams, trace),
    ]


def read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def most_used(schedule: Schedule) -> int:
    signs = np.isin(schedule.action, Action.ALLOC) * 1 - np.isin(schedule.action, list(GIVES_BACK))
    return int(np.cumsum(signs * schedule.bytes).max())


def check(path: Path) -> dict[str, int]:
    """The rules of the trace event format that concern us. Returns the time of all slices, by category."""
    events = read(path)
    sums: dict[str, int] = defaultdict(int)
    until: dict[tuple[int, int], int] = defaultdict(int)
    named = {(e["pid"], e.get("tid")) for e in events if e["name"] in ("process_name", "thread_name")}
    arrows: dict[str, list[tuple[str, int]]] = defaultdict(list)
    counted: dict[int, int] = defaultdict(int)
    for e in events:
        assert e["ph"] in "MXiC"
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "process_sort_index", "thread_sort_index")
            continue
        assert (e["pid"], None) in named
        if e["ph"] == "C":
            assert all(type(v) is int for v in e["args"].values())
            assert ns(e["ts"]) >= counted[e["pid"]]
            counted[e["pid"]] = ns(e["ts"])
            continue
        track = e["pid"], e["tid"]
        assert track in named
        assert ns(e["ts"]) >= until[track], "slices of a track overlap"
        until[track] = ns(e["ts"]) + ns(e.get("dur", 0))
        sums[e["cat"]] += ns(e.get("dur", 0))
        if e.get("flow_out") or e.get("flow_in"):
            arrows[e["bind_id"]].append(("out" if "flow_out" in e else "in", until[track]))
    for ends in arrows.values():
        (first, launched), (second, ended) = sorted(ends, reverse=True)
        assert (first, second) == ("out", "in")
        assert launched <= ended
    return sums


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_the_format_is_kept_and_the_numbers_are_ours(bert: Trace, allocator: str, tmp_path: Path) -> None:
    t, schedule, trace = case(bert, allocator)
    path = tmp_path / "t.json"
    assert perfetto.save(t, schedule, trace, path) == len(read(path))
    sums = check(path)
    assert sums["compute"] == t.compute_ns
    assert sums["recompute"] == t.recompute_ns > 0
    assert sums["search"] == t.search_ns
    assert sums["cudaMalloc"] + sums["cudaFree"] == t.device_calls_ns
    assert sums["wait"] == t.host_blocked_ns
    assert sum(sums[c] for c in ("dispatch", "allocator", "search", "cudaMalloc", "cudaFree")) == t.host_work_ns
    assert sum(e.get("cat") == "evict" for e in read(path)) == schedule.header["evictions"]
    counted = [e["args"] for e in read(path) if e["ph"] == "C"]
    known = {(level.used, level.free, level.largest_hole) for _, level in levels(schedule, t.calls)}
    assert {(c["used"], c["free"], c["largest hole"]) for c in counted} <= known
    assert max(c["used"] for c in counted) == most_used(schedule)
    unsplit = allocator == "cuda-caching"  # its blocks may be larger than what was asked for
    assert unsplit or most_used(schedule) == schedule.header["peak_bytes"]
    reserved = [c["reserved"] for c in counted if "reserved" in c]
    assert max(reserved, default=None) == schedule.header.get("peak_reserved_bytes")


def test_small_ones(tmp_path: Path) -> None:
    for t, schedule, trace in small():
        perfetto.save(t, schedule, trace, tmp_path / "t.json")
        sums = check(tmp_path / "t.json")
        for category, kinds in (("compute", [TaskKind.COMPUTE]), ("copy", [TaskKind.COPY_IN, TaskKind.COPY_ON_WRITE])):
            costs = zip(t.tasks.kind.tolist(), t.tasks.cost_ns.tolist(), strict=True)
            assert sums[category] == sum(cost for kind, cost in costs if kind in kinds)


def test_the_same_bytes_again_and_compressed(tmp_path: Path) -> None:
    (one, *_), (two, *_) = small(), small()
    perfetto.save(*one, tmp_path / "a.json")
    perfetto.save(*two, tmp_path / "b.json")
    perfetto.save(*one, tmp_path / "a.json.gz")
    perfetto.save(*two, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()


@pytest.mark.parametrize("allocator", ["arena", "cuda-caching"])
def test_perfettos_own_trace_processor_answers_with_our_numbers(bert: Trace, allocator: str, tmp_path: Path) -> None:
    from tests.simulate.timeline.trace_processor import TraceProcessor

    t, schedule, trace = case(bert, allocator)
    perfetto.save(t, schedule, trace, tmp_path / "t.json.gz")
    counted = [e["args"] for e in perfetto.events(t, schedule, trace) if e["ph"] == "C"]
    with TraceProcessor(trace=str(tmp_path / "t.json.gz")) as processor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(vars(row).values()) for row in processor.query(sql)]

        assert ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
        count, sums = ({c: n for c, *n in ask(_BY_CATEGORY)}[c] for c in ("compute", "recompute"))
        assert count == [len(t.tasks) - t.recompute.sum(), t.compute_ns]
        assert sums == [t.recompute.sum(), t.recompute_ns]
        found = {c: n for c, *n in ask(_BY_CATEGORY)}
        assert found["evict"][0] == schedule.header["evictions"] > 0
        assert found["search"][1] == t.search_ns
        assert found["dispatch"] == [len(t.tasks), len(t.tasks) * t.params.dispatch_ns]
        assert found["wait"][1] == t.host_blocked_ns
        assert found["step"] == [2, t.step_ns.sum()]
        assert found.get("cudaMalloc", [0, 0])[1] + found.get("cudaFree", [0, 0])[1] == t.device_calls_ns
        assert ask("select count(*) from flow") == [(len(t.tasks),)]
        tops = dict(ask(_COUNTERS))
        assert tops["bytes used"] == most_used(schedule)
        for name in {"used", "free", "largest hole", "reserved"} & set(counted[0]):
            assert tops[f"bytes {name}"] == max(c[name] for c in counted)
        last_ns = ask("select max(ts + dur) from slice where category in ('compute', 'recompute')")
        assert last_ns == [(t.end_ns.max(),)]


_BY_CATEGORY = "select category, count(*), sum(dur) from slice group by category"
_COUNTERS = """select t.name, max(c.value) from counter c join counter_track t on c.track_id = t.id group by t.name"""


EXPORT = ("export", "--trace", "synth:chain")


@pytest.fixture
def schedule_file(tmp_path: Path, coopsim: Any) -> Path:
    path = tmp_path / "s.parquet"
    assert coopsim("replay", "synth:chain", "--policy", "coop", "--budget", "70%", "-o", path).code == 0
    return path


def test_the_command_line_writes_it(schedule_file: Path, tmp_path: Path, coopsim: Any) -> None:
    out = tmp_path / "t.json"
    code, _, err = coopsim(*EXPORT, schedule_file, "--perfetto", out)
    assert (code, err.count("\n")) == (0, 1)
    shipped = out.read_bytes()
    mine = tmp_path / "mine.toml"
    mine.write_text('[dispatch_ns]\nvalue = 77000\nsource = "mine"\n')
    assert coopsim(*EXPORT, schedule_file, "--perfetto", out, "--timeline-params", mine).code == 0
    slices = [e for e in read(out) if e.get("cat") == "dispatch"]
    assert slices
    assert {ns(e["dur"]) for e in slices} == {77000}
    assert shipped != out.read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "one of the arguments --torch-snapshot --perfetto is required"),
        (("--perfetto", "a.json", "--torch-snapshot", "b"), "not allowed with"),
        (("--perfetto", "nowhere/a.json"), "no such folder"),
        (("--perfetto", "a.json", "--timeline-params", "none.toml"), "not a file of timeline parameters"),
        (("--torch-snapshot", "b", "--timeline-params", "none.toml"), "is for --perfetto"),
    ],
)
def test_what_cannot_be_exported(
    options: tuple[str, ...], said: str, schedule_file: Path, coopsim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(schedule_file.parent)
    before = sorted(schedule_file.parent.iterdir())
    code, out, err = coopsim(*EXPORT, schedule_file, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert sorted(schedule_file.parent.iterdir()) == before


def test_a_schedule_that_overlaps_is_refused(tmp_path: Path, coopsim: Any) -> None:
    schedule, trace = two_streams()
    from coopsim.trace.file import save as save_trace

    save_trace(trace, tmp_path / "trace.parquet")
    save(changed(schedule, address=schedule.address * 0), tmp_path / "s.parquet")
    code, _, err = coopsim(
        "export", tmp_path / "s.parquet", "--perfetto", tmp_path / "t.json", "--trace", tmp_path / "trace.parquet"
    )
    assert (code, "takes bytes that are not free" in err) == (2, True)
    assert not (tmp_path / "t.json").exists()
