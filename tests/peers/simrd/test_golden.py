"""Every replay that simrd itself made of DTR's logs, and every action of some. The logs carry no licence: they, and the
figures, lie in the folder that COOPSIM_SIMRD_DATA names (golden.csv, *.log or *.log.zst, events-*.jsonl.gz)."""

import csv
import gzip
import json
import os
from functools import lru_cache
from pathlib import Path

import pytest

from coopsim.base.types import Action
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.trace import Trace
from tests.peers.simrd import POLICIES, import_log, measure_simrd, replay_simrd
from tests.peers.simrd.log import Constant, LogCall, read

DATA = Path(os.environ.get("COOPSIM_SIMRD_DATA") or "/nowhere")
CLASSES = {cls: name for name, (_, cls) in POLICIES.items()}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "golden.csv").exists(), reason="COOPSIM_SIMRD_DATA names no folder of simrd's logs"),
]


def golden() -> list[dict[str, str]]:
    """The rows of simrd's RuntimeV2EagerOptimized, whose rules we reproduce."""
    if not (DATA / "golden.csv").exists():
        return []
    rows = csv.DictReader((DATA / "golden.csv").open())
    return [
        r
        for r in rows
        if r["runtime"] == "RuntimeV2EagerOptimized" and r["releases_stripped"] == "0" and r["heuristic"] in CLASSES
    ]


def log_file(name: str) -> Path:
    return next(DATA / (name + suffix) for suffix in ("", ".zst", ".gz") if (DATA / (name + suffix)).exists())


@lru_cache
def trace_of(name: str) -> Trace:
    return import_log(log_file(name))


@pytest.mark.parametrize(
    "row", golden(), ids=lambda r: f"{r['model']}-{r['heuristic']}-{r['ratio']}-{r['overhead_limit']}"
)
def test_replays_are_simrds(row: dict[str, str]) -> None:
    trace = trace_of(row["log"])
    r = measure_simrd(trace, CLASSES[row["heuristic"]], int(row["budget_bytes"]), float(row["overhead_limit"]))
    assert trace.header["simrd"]["baseline_peak_bytes"] == int(row["baseline_peak_bytes"])
    assert r["base_cost_ns"] == int(row["baseline_compute_ns"])
    assert r["outcome"] == row["status"]
    figures = ("evictions", "releases", "recomputes", "peak_bytes", "total_cost_ns", "recompute_cost_ns")
    wanted = ("evictions_pressure", "evictions_dealloc", "remat_ops")
    wanted += ("max_memory_bytes", "total_compute_ns", "remat_compute_ns")
    assert [r[k] for k in figures] == [int(row[k]) for k in wanted]
    assert r["search_scores"] == int(row["heuristic_evals"])
    if row["slowdown"]:
        assert r["overhead"] == pytest.approx(float(row["slowdown"]), abs=1e-6)


@pytest.mark.parametrize("file", sorted(DATA.glob("events-*.jsonl.gz")), ids=lambda p: p.name)
def test_actions_are_simrds(file: Path) -> None:
    _, model, heuristic, ratio, _ = file.name.removesuffix(".jsonl.gz").split("-")
    row = next(r for r in golden() if (r["model"], r["heuristic"], r["ratio"]) == (model, heuristic, ratio))
    trace = trace_of(row["log"])
    names: list[str] = []  # of the tensors, as simrd counts them; these logs update nothing in place
    for i in read(log_file(row["log"])):
        if isinstance(i, Constant):
            names.append(i.name)
        elif isinstance(i, LogCall):
            names += [name for name, _, _ in i.results]
    constants = int(trace.alive_at_start.sum())
    found: list[tuple[object, ...]] = []
    schedule = replay_simrd(trace, CLASSES[heuristic], int(row["budget_bytes"]), 2.0)
    for action, _, op, storage, _, _, nbytes, time_ns, _ in schedule.rows():
        if action in (Action.COMPUTE, Action.RECOMPUTE):
            found.append(("R" if action == Action.RECOMPUTE else "C", op + constants))
        elif action == Action.ALLOC and op < 0:  # a constant of the start
            found.append(("C", storage))
        elif action in (Action.EVICT, Action.RELEASE):
            why = "pressure" if action == Action.EVICT else "dealloc"
            found.append(("E", why, names[storage], nbytes, time_ns + 1))
    events = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    wanted = [tuple(e) if e[0] == "E" else (e[0], int(e[1].rpartition("/")[2])) for e in events]
    assert found == wanted


BANISHING = {"DTRUnopt": "dtr", "DTRLocal": "dtr-local", "LRU": "lru"}


def banished() -> list[dict[str, str]]:
    """The rows of simrd's RuntimeV1, which banishes."""
    rows = csv.DictReader((DATA / "golden.csv").open()) if (DATA / "golden.csv").exists() else []
    return [r for r in rows if r["runtime"] == "RuntimeV1" and r["heuristic"] in BANISHING]


@pytest.mark.parametrize("row", banished(), ids=lambda r: f"{r['model']}-{r['heuristic']}-{r['ratio']}")
def test_banishing_in_the_general_core_is_nearly_simrds(row: dict[str, str]) -> None:
    """The core's clock, ties and staleness are not simrd's, and it knows no views: the same outcome, within a point."""
    policy = f"{BANISHING[row['heuristic']]}:release=banish,dead=keep"
    limit = float(row["overhead_limit"])
    options = ReplayOptions(1, overhead_limit=limit)
    found = measure(trace_of(row["log"]), policy, int(row["budget_bytes"]), "counter", options)
    assert found["outcome"] == row["status"]
    assert found["evictions"] == pytest.approx(int(row["evictions_pressure"]), rel=0.1, abs=2)
    if row["slowdown"]:
        assert found["overhead"] == pytest.approx(float(row["slowdown"]), abs=0.01)


def measured_on_a_card() -> list[dict[str, str]]:
    """DenseNet-121 under DTR's prototype in PyTorch, on a Titan V, in the bytes of each budget."""
    file = DATA / "titanv_densenet.csv"
    return list(csv.DictReader(file.open())) if file.exists() else []


@pytest.mark.skipif(not measured_on_a_card(), reason="COOPSIM_SIMRD_DATA has no titanv_densenet.csv")
@pytest.mark.parametrize("row", measured_on_a_card(), ids=lambda r: f"{int(r['budget_bytes']) // 10**9}GB")
def test_a_titan_v_is_met_within_a_point(row: dict[str, str]) -> None:
    """The overhead in op time, which simrd predicts too (limit 10); the prototype decided by h_DTR_eq."""
    log = next(r["log"] for r in golden() if r["model"] == row["model"])
    found = measure_simrd(trace_of(log), "dtr-eq", int(row["budget_bytes"]), 10.0)
    assert found["outcome"] == "ok"
    assert found["overhead"] == pytest.approx(float(row["proto_slowdown_ops"]), abs=0.01)
    assert found["overhead"] == pytest.approx(float(row["simrd_slowdown"]), abs=1e-6)
    assert (found["evictions"], found["recomputes"]) == (int(row["simrd_evictions"]), int(row["simrd_remat_ops"]))
