"""DTR's logs as traces: what they say, what is refused, and the command line around them."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from coopsim.base.types import CoopsimError
from coopsim.trace import TraceBuilder, check, load, save
from tests.peers.simrd import LogError, import_log, measure_simrd
from tests.peers.simrd.logs import random_log

LOG = [
    {"INSTRUCTION": "RELEASE", "NAME": "from before START"},
    {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"},
    {"INSTRUCTION": "CONSTANT", "NAME": "w"},
    {"INSTRUCTION": "MEMORY", "NAME": "w", "MEMORY": "100"},
    {"INSTRUCTION": "CALL", "NAME": "mm", "ARGS": ["w", "w"], "RESULT": ["y", "z"], "TIME": "7"},
    {"INSTRUCTION": "MEMORY", "NAME": "y", "MEMORY": "10"},
    {"INSTRUCTION": "ALIAS", "NAME": "y", "ALIAS": "-1"},
    {"INSTRUCTION": "MEMORY", "NAME": "z", "MEMORY": "20"},
    {"INSTRUCTION": "ALIAS", "NAME": "z", "ALIAS": "-1"},
    {"INSTRUCTION": "CALL", "NAME": "view", "ARGS": ["y"], "RESULT": ["v"], "TIME": "1"},
    {"INSTRUCTION": "MEMORY", "NAME": "v", "MEMORY": "10"},
    {"INSTRUCTION": "ALIAS", "NAME": "v", "ALIAS": "0"},
    {"INSTRUCTION": "RELEASE", "NAME": "y"},
    {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "BACKWARD"},
    {"INSTRUCTION": "COPY", "DST": "u", "SRC": "z"},
    {"INSTRUCTION": "MUTATE", "NAME": "add_", "ARGS": ["z", "v"], "MUTATE": [0], "TIME": "3"},
    {"INSTRUCTION": "RELEASE", "NAME": "v"},
    {"INSTRUCTION": "RELEASE", "NAME": "u"},
    {"INSTRUCTION": "RELEASE", "NAME": "unknown"},
]


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def test_every_instruction_finds_its_place(tmp_path: Path) -> None:
    trace = import_log(write(tmp_path / "small-9000000000.0-2020-10-1-13-3-30-default.log", LOG))
    check(trace)
    assert trace.label == "small"
    assert trace.bytes.tolist() == [100, 10, 20, 0, 20]  # w, y, z, v, and z as add_ leaves it
    assert trace.alive_at_start.tolist() == [True, False, False, False, False]
    assert trace.name == ["mm", "view", "add_"]
    assert trace.phase == ["forward", "forward", "backward"]
    assert trace.cost_ns.tolist() == [7, 1, 3]
    assert trace.reads.rows() == [[0, 0], [1], [2, 3, 1]]  # the view's owner is appended
    assert trace.creates.rows() == [[1, 2], [3], [4]]
    assert trace.freed.tolist() == [1, 2]  # y with its view; z's first version when its copy u goes
    assert trace.freed_after.tolist() == [2, 2]
    assert trace.header["simrd"] == {"version": 1, "views": [[3, 1]], "kept": [4], "baseline_peak_bytes": 150}


@pytest.mark.parametrize("suffix", [".log", ".log.gz", ".log.zst"])
def test_files_may_be_compressed(suffix: str, tmp_path: Path) -> None:
    text = random_log(3, 60).encode()
    path = tmp_path / f"x{suffix}"
    if suffix.endswith("zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as out:
            out.write(text)
    else:
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    trace = import_log(path)
    save(trace, tmp_path / "t.parquet")
    again = load(tmp_path / "t.parquet")
    assert again.content_hash == trace.content_hash
    assert measure_simrd(again, "dtr", 60) | {"search_ns": 0} == measure_simrd(trace, "dtr", 60) | {"search_ns": 0}


def broken(at: int, *lines: dict[str, object]) -> list[dict[str, object]]:
    return [*LOG[:at], *lines, *LOG[at + 1 :]]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "no instructions"),
        ([{"NAME": "x"}], "line 1: not a DTR log"),
        (broken(3), "line 3: malformed CONSTANT (the MEMORY of w must follow"),
        (broken(4, LOG[4] | {"TIME": "soon"}), "line 5: malformed CALL"),
        (broken(4, LOG[4] | {"ARGS": ["q"]}), "line 5: unknown tensor q"),
        (broken(4, {"INSTRUCTION": "CALL", "NAME": "mm"}), "line 5: malformed CALL (no field 'ARGS')"),
        (broken(11, LOG[11] | {"ALIAS": "3"}), "v is a view of argument 3"),
        (broken(14, LOG[14] | {"DST": "v"}), "line 15: tensor v exists already"),
        (broken(14, {"INSTRUCTION": "DANCE"}), "line 15: malformed DANCE (no such instruction"),
        ([*LOG, LOG[-2]], "line 20: a tensor is released more often than it is held"),
        ([*LOG, LOG[14] | {"SRC": "v"}], "line 20: tensor v is used after its release"),
    ],
)
def test_malformed_logs_are_refused_by_line(lines: list[dict[str, object]], reason: str, tmp_path: Path) -> None:
    with pytest.raises(LogError) as e:
        import_log(write(tmp_path / "bad.log", lines))
    assert reason in str(e.value)
    assert "\n" not in str(e.value)


def test_a_trace_of_another_origin_has_a_meaning(bert: object) -> None:
    b = TraceBuilder()
    weight = b.storage(10, "parameter", alive_at_start=True)
    x = b.storage(4)
    b.op("make", reads=[weight], creates=[x], temporaries=[3], cost_ns=5)
    b.op("add_", reads=[weight], mutates=[x], cost_ns=2)
    b.op("look", reads=[x], cost_ns=1)
    b.free(x)
    trace = b.build({"model": "other"})
    r = measure_simrd(trace, "dtr", 18)
    assert (r["outcome"], r["overhead"], r["peak_bytes"], r["releases"]) == ("ok", 1.0, 18, 3)
    assert measure_simrd(trace, "dtr", 16)["failure"]["needed_bytes"] == 7
    r = measure_simrd(bert, "dtr-eq", 20 << 30, 10.0)  # type: ignore[arg-type]
    assert r["base_cost_ns"] == int(bert.cost_ns.sum())  # type: ignore[attr-defined]


def test_what_simrd_does_not_know_is_one_line(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.op("a", creates=[b.storage(1)], cost_ns=1)
    b.next_step()
    b.op("b", creates=[b.storage(1)], cost_ns=1)
    with pytest.raises(CoopsimError, match="one training step"):
        measure_simrd(b.build({}), "dtr", 10)
    path = tmp_path / "mixed.log"
    path.write_text(random_log(1000, 150, mixed_views=True))
    with pytest.raises(CoopsimError, match="view from several storages"):
        measure_simrd(import_log(path), "msps", 1000)


def test_a_step_with_collectives_is_refused() -> None:
    b = TraceBuilder()
    b.op("all_reduce", creates=[b.storage(4)], cost_ns=1)
    trace = b.build({})
    with pytest.raises(CoopsimError, match="simrd's rules run any op again, and this trace has collectives"):
        measure_simrd(replace(trace, peers=trace.peers + 2), "dtr", 1 << 20)
