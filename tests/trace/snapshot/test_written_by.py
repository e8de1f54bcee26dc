"""The versions of PyTorch that can have written a file, by its fields; and lines that PyTorch could not tell."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from coopsim.cards import wheel
from coopsim.fitting.advise.selfcheck import best
from coopsim.simulate.allocators.caching.version import between
from coopsim.trace.snapshot import read
from coopsim.trace.snapshot.requests import of_snapshot
from tests.conftest import Runner
from tests.trace.snapshot.history import History
from tests.trace.snapshot.pickles import ENTRY, MADE, SEGMENT, WHOLE

SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": ""}
REUSE = "graph_capture_record_stream_reuse"
#: Fields, each with those before it: where and what. The last column: what a file with these says.
FIELDS: list[tuple[str, dict[str, Any], tuple[str | None, str | None]]] = [
    ("file", {}, (None, "2.0")),
    ("segment", {"is_expandable": False}, ("2.1", "2.1")),
    ("event", {"time_us": 5}, ("2.2", "2.2")),
    ("file", {"allocator_settings": SETTINGS}, ("2.3", "2.4")),
    ("file", {"external_annotations": []}, ("2.5", "2.7")),
    ("event", {"compile_context": "N/A"}, ("2.8", "2.8")),
    ("file", {"allocator_settings": SETTINGS | {REUSE: False}}, ("2.9", "2.9")),
    ("event", {"user_metadata": ""}, ("2.10", "2.11")),
    ("event", {"pool_id": (0, 0)}, ("2.12", None)),
]


def of(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """WHOLE without settings, with these fields."""
    whole = {k: v for k, v in WHOLE.items() if k != "allocator_settings"}
    entries = [entry | parts.get("event", {}) for entry in (MADE, ENTRY)]
    segment = SEGMENT | parts.get("segment", {})
    return whole | parts.get("file", {}) | {"segments": [segment], "device_traces": [entries]}


def written(tmp_path: Path, found: Any) -> Path:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(found))
    return path


@pytest.mark.parametrize("n", range(len(FIELDS)))
def test_earliest_and_latest(n: int, tmp_path: Path) -> None:
    parts: dict[str, dict[str, Any]] = {}
    for where, fields, _ in FIELDS[: n + 1]:
        parts[where] = parts.get(where, {}) | fields
    by = read(written(tmp_path, of(parts))).written
    assert (by.earliest, by.latest) == FIELDS[n][2]
    assert by.known


def test_fields_of_no_version(tmp_path: Path, coopsim: Any) -> None:
    path = written(tmp_path, of({"event": {"pool_id": (0, 0)}}))
    assert not read(path).written.known
    said = coopsim("advise", path, "--memory", "1GiB").out
    assert "fields that no one version of torch writes together" in said


def test_without_events_their_fields_say_nothing(tmp_path: Path) -> None:
    found = of({"segment": {"is_expandable": False}}) | {"device_traces": [[]]}
    found |= {"allocator_settings": SETTINGS, "external_annotations": []}
    by = read(written(tmp_path, found)).written
    assert (by.earliest, by.latest) == ("2.5", "2.8")


def test_only_rules_of_these_versions_are_tried(tmp_path: Path) -> None:
    parts: dict[str, dict[str, Any]] = {}
    for where, fields, _ in FIELDS[:5]:
        parts[where] = parts.get(where, {}) | fields
    snapshot = read(written(tmp_path, of(parts)))
    assert best(snapshot, of_snapshot(snapshot)).torch == "2.7.1"


def test_of_older_ones_the_oldest_rules() -> None:
    assert between("2.1", "2.1") == ["2.6.0"]
    assert between("2.10", "2.11") == ["2.10.0", "2.11.0"]
    assert between("2.12", None)[0] == "2.12.1"
    assert between(None, None)[-1] == "2.15.0"


def test_the_installed_torch_is_among_them(on_phantom: Runner, tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    on_phantom(f"""
import torch
torch.cuda.memory._record_memory_history(stacks="python")
x = torch.ones(1 << 20, device="cuda")
torch.cuda.memory._dump_snapshot({str(path)!r})
answer(True)
""")
    by = read(path).written
    version = wheel.find().version.partition("+")[0]
    name = between(version.rpartition(".")[0], version.rpartition(".")[0])
    assert name[0] in between(by.earliest, by.latest)


@pytest.mark.parametrize("line", [2**64 - 1, -1, 2**63, 2**31])
def test_lines_that_are_none(line: int, tmp_path: Path, coopsim: Any) -> None:
    """Python 3.13 and torch 2.6: -1, written without a sign."""
    h = History()
    h.take(12, ("/home/me/net.py", line, "forward"), ("/home/me/train.py", 3, "<module>"))
    h.run_out(12, ("/home/me/net.py", line, "forward"))
    path = h.write(tmp_path / "s.pickle")
    assert [f.line for f in read(path).events[1].frames] == [0, 3]
    code, out, err = coopsim("advise", path)
    assert code == 3, err
    assert "at net.py forward\n" in out
    assert coopsim("import", "torch-snapshot", path, "-o", tmp_path / "t").code == 0


def test_a_history_without_allocations(tmp_path: Path, coopsim: Any) -> None:
    for events in ([], [{"action": "snapshot", "addr": 0, "size": 0, "stream": 0}]):
        path = written(tmp_path, WHOLE | {"device_traces": [events]})
        for command in (("advise", path, "--memory", "1GiB"), ("import", "torch-snapshot", path, "-o", tmp_path / "t")):
            code, out, err = coopsim(*command)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert "its history has no allocations, only what was there at its end (2 MiB reserved)" in err
    assert [p.name for p in tmp_path.iterdir()] == ["s.pickle"]
