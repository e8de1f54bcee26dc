"""A simulated run as PyTorch's snapshot: read back by us, and shown by torch's own viewer."""

from pathlib import Path
from typing import Any

import pytest

from coopsim.base.types import Action
from coopsim.simulate.replay import replay
from coopsim.trace import Trace
from coopsim.trace import save as save_trace
from coopsim.trace.request_rows import AMOUNT, KIND
from coopsim.trace.requests_of import of_schedule
from coopsim.trace.schedule import save
from coopsim.trace.snapshot import read
from coopsim.trace.snapshot.requests import of_snapshot
from coopsim.trace.snapshot.unpickle import load
from coopsim.trace.synth import make
from tests.conftest import Runner


@pytest.fixture
def exported(tmp_path: Path, coopsim: Any) -> tuple[Trace, Any, Path]:
    trace = make("synth:chain")
    schedule = replay(trace, "coop", _half(trace), steps=2)
    save(schedule, tmp_path / "s.parquet")
    save_trace(trace, tmp_path / "t.parquet")
    out = tmp_path / "out.pickle"
    code, _, err = coopsim("export", tmp_path / "s.parquet", "--trace", tmp_path / "t.parquet", "--torch-snapshot", out)
    assert code == 0, err
    return trace, schedule, out


def _half(trace: Trace) -> int:
    from coopsim.trace.measure import peak_bytes

    return peak_bytes(trace, 512) * 7 // 10


def test_same_requests(exported: tuple[Trace, Any, Path]) -> None:
    _, schedule, out = exported
    assert "evict" in schedule.text()
    found, wanted = of_snapshot(read(out)), of_schedule(schedule)
    assert found.rows[:, [KIND, AMOUNT]].tolist() == wanted.rows[:, [KIND, AMOUNT]].tolist()


def test_hover_says_op_module_and_policy(exported: tuple[Trace, Any, Path]) -> None:
    trace, _, out = exported
    entries = [e for e in load(out)["device_traces"][0] if e["action"] == "alloc"]
    names = [[frame["name"] for frame in e["frames"]] for e in entries]
    assert all(stack[2] == "coop" for stack in names)
    assert any(stack[0].endswith(" recomputed") for stack in names)
    assert {stack[0].removesuffix(" recomputed") for stack in names} <= {*trace.name, "start or end of a step"}
    assert all(e["user_metadata"] for e in entries)


def test_torch_shows_it(exported: tuple[Trace, Any, Path], on_phantom: Runner) -> None:
    _, _, out = exported
    text = f"""
import pickle
from torch.cuda import _memory_viz as viz
with open({str(out)!r}, "rb") as file:
    data = pickle.load(file)
text = viz.trace(data)
shown = [viz.segsum(data), viz.trace_plot(data), viz.segment_plot(data)]
answer([text.count("\\n"), "cudaMalloc" in text, *map(len, shown)])
"""
    lines, made, *lengths = on_phantom(text)
    assert made
    assert lines > len(load(out)["device_traces"][0]) // 2
    assert min(lengths) > 300


def test_counter_is_refused(tmp_path: Path, coopsim: Any) -> None:
    trace = make("synth:chain")
    save(replay(trace, "coop", _half(trace), "counter", steps=1), tmp_path / "s.parquet")
    save_trace(trace, tmp_path / "t.parquet")
    args = ("export", tmp_path / "s.parquet", "--trace", tmp_path / "t.parquet", "--torch-snapshot", tmp_path / "o")
    code, _, err = coopsim(*args)
    assert (code, err) == (2, "coopsim: a schedule in a counter has no addresses to show\n")
    assert not (tmp_path / "o").exists()


def test_recomputed_is_what_the_next_op_says(exported: tuple[Trace, Any, Path]) -> None:
    """An allocation belongs to the op whose row comes after it."""
    _, schedule, out = exported
    wanted: list[bool] = []
    waiting: list[int] = []
    for action, _, op, *_ in schedule.rows():
        if action == Action.ALLOC:
            waiting.append(op)
        elif action in (Action.COMPUTE, Action.RECOMPUTE):
            wanted += [action == Action.RECOMPUTE and mine == op for mine in waiting]
            waiting = []
    entries = [e for e in load(out)["device_traces"][0] if e["action"] == "alloc"]
    shown = [e["frames"][0]["name"].endswith(" recomputed") for e in entries]
    assert shown[: len(wanted)] == wanted
    assert 0 < sum(wanted) < len(wanted)
