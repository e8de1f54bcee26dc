"""What is computed from the files of a run, on files whose answers are known."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from coopsim import trace as traces
from coopsim.cards import profiles
from coopsim.trace import Ragged, Trace
from experiments.gpu import compare, executed, figures, lived, names, peaks, report, roofline, tables
from tests.conftest import ROOT

CARD = profiles.get("h100-80gb")
REACHED = {kind: 0.1 + 0.05 * i for i, kind in enumerate((*roofline.CLASSES, roofline.REST))}
LAUNCH = 2500


def model(name: str) -> Trace:
    return traces.load(ROOT / "traces" / f"{name}.parquet")


def measured(name: str) -> Trace:
    """A trace with the costs of a card that reaches a known part of its peaks."""
    plain = model(name)
    ideal = roofline.costs(plain, CARD).ideal_ns
    part = np.array([REACHED[roofline.class_of(op)] for op in plain.name])
    empty = np.array([roofline.class_of(op) == "no kernel" for op in plain.name])
    cost = np.where(empty, 0, np.maximum(np.round(ideal / part), LAUNCH)).astype(np.int64)
    return dataclasses.replace(plain, cost_ns=cost)


def test_a_trace_is_itself() -> None:
    found = compare.compare(model("swin-t"), model("swin-t"))
    assert found["differences"] == []
    assert found["summary"]["both"] == model("swin-t").n_ops


def changed(real: Trace, ragged: dict[str, dict[int, list[int]]], **columns: object) -> Trace:
    """A trace with other lists at some ops, and other columns."""
    for key, lists in ragged.items():
        rows = getattr(real, key).rows()
        for op, values in lists.items():
            rows[op] = values
        columns[key] = Ragged.of(rows)
    return dataclasses.replace(real, **columns)


def causes(other: Trace, real: Trace) -> list[tuple[int | None, str, str]]:
    return [(d["gpu_op"], d["what"], d["cause"]) for d in compare.compare(other, real)["differences"]]


def first(trace: Trace, begins: str) -> int:
    return next(op for op, name in enumerate(trace.name) if name.startswith(f"aten.{begins}"))


def test_every_difference_is_found() -> None:
    real = model("swin-t")
    frees = real.freed_after.copy()
    frees[50] += 1
    module = [*real.module[:7], "elsewhere", *real.module[8:]]
    other = changed(real, {"temporaries": {100: [12345]}}, freed_after=np.sort(frees), module=module)
    found = causes(other, real)
    moved = int(real.freed_after[50])
    scratch = compare.explain.explain([{"what": "temporaries", "op": real.name[100], "gpu_op": 100}])[0]
    assert set(found) == {
        (100, "temporaries", scratch),
        (7, "module", "label"),
        (moved, "frees", "freed at another op"),
        (moved + 1, "frees", "freed at another op"),
    }
    assert len(found) == 4
    (row,) = [r for r in compare.temporaries(other, real) if r["gpu"] == (12345,)]
    assert row["op"] == real.name[100]
    assert row["count"] == 1


def test_workspaces_are_told_apart() -> None:
    real = model("resnet-50")
    plan, product, rest = first(real, "convolution_backward"), first(real, "addmm"), first(real, "max_pool2d")
    more = {op: [1 << 20] for op in (plan, product, rest)}
    asked = {plan: [1 << 20, -4, *range(-1, -4, -1)]}
    assert causes(changed(real, {"temporaries": more, "requests": asked}), real) == sorted(
        [
            (plan, "temporaries", "workspace of cuDNN"),
            (plan, "requests", "workspace of cuDNN"),
            (product, "temporaries", "workspace of cuBLAS"),
            (rest, "temporaries", "scratch of another kernel"),
        ],
        key=lambda row: row[0],
    )


def test_what_follows_from_a_reserve() -> None:
    real = model("resnet-50")
    norm = first(real, "cudnn_batch_norm.")
    size = real.bytes.copy()
    size[real.creates.rows()[norm][-1]] += 4096
    found = causes(dataclasses.replace(real, bytes=size), real)
    assert found[0] == (norm, "creates", "reserve of cuDNN")
    assert {(what, cause) for _, what, cause in found[1:]} == {
        ("reads", "follows from a size"),
        ("frees", "follows from a size"),
    }


def test_what_nothing_explains() -> None:
    real = model("resnet-50")
    convolution = first(real, "convolution.")
    size = real.bytes.copy()
    size[real.creates.rows()[convolution][0]] += 512
    found = causes(dataclasses.replace(real, bytes=size), real)
    assert (convolution, "creates", "not explained") in found
    assert {cause for _, _, cause in found} == {"not explained"}


def test_ops_that_change_places() -> None:
    real = model("unet")
    name, module = list(real.name), list(real.module)
    name[20], module[20] = "aten.other.default", "here"
    other = dataclasses.replace(real, name=name, module=module)
    name, module = list(real.name), list(real.module)
    name[40], module[40] = "aten.other.default", "here"
    found = causes(other, dataclasses.replace(real, name=name, module=module))
    assert (20, "only on the GPU", "another place in the order") in found
    assert (None, "only on the phantom", "another place in the order") in found


def test_an_op_that_only_one_has() -> None:
    real = model("unet")
    renamed = dataclasses.replace(real, name=[*real.name[:20], "aten.other.default", *real.name[21:]])
    found = compare.compare(renamed, real)
    assert [(d["what"], d["gpu_op"], d["phantom_op"], d["cause"]) for d in found["differences"]] == [
        ("only on the GPU", 20, None, "another op in its place"),
        ("only on the phantom", None, 20, "another op in its place"),
    ]
    assert found["summary"]["both"] == real.n_ops - 1


def test_the_fit_finds_what_is_there() -> None:
    every = [roofline.costs(measured(name), CARD) for name in (*roofline.FIT_ON, "swin-t", "gpt3-2.7b")]
    fitted = roofline.fit([c for c in every if c.model in roofline.FIT_ON])
    assert fitted.launch_ns == LAUNCH
    seen = {kind for c in every if c.model in roofline.FIT_ON for kind in c.kind}
    assert {"matrix product", "convolution", "normalisation", roofline.REST} <= set(fitted.efficiency) <= seen
    for kind in ("matrix product", "convolution", "normalisation"):
        assert fitted.efficiency[kind] == pytest.approx(REACHED[kind], rel=0.05)
    rows = {(r["model"], r["class"]): r for r in roofline.errors(every, fitted)}
    for name in ("swin-t", "gpt3-2.7b"):
        row = rows[name, "all"]
        assert row["role"] == "test"
        assert row["fitted_ms"] == pytest.approx(row["measured_ms"], rel=0.1)
        assert abs(row["roofline_ms"] / row["measured_ms"] - 1) > 0.3


def execution(policy: str, op_ns: int, place_ns: int, wall: int, overhead: float) -> dict[str, object]:
    """Two steps of two ops; the second step takes twice what the first does, and so do the predictions."""
    state = {"storages": 10, "found": 10, "identical": 9, "largest_difference": 0.25, "largest_relative": 0.5}
    base, total = 1000, round(1000 * overhead)
    steps = {"base_ns": [base, base], "total_ns": [total, 2 * total - base]}
    return {
        "schedule": {"policy": policy, "percent": 50, "recomputes": 7, "steps": steps},
        "ops": [0, 1, 0, 1],
        "step_starts": [0, 2],
        "op_ns": [op_ns, 0, op_ns, op_ns],
        "prepare_ns": [0, 0, 0, 0],
        "place_ns": [place_ns, 0, place_ns, place_ns],
        "wall_ns": [[wall, 2 * wall], [1, 1], [10 * wall, 10 * wall]],
        "arena_peak_bytes": 1 << 30,
        "outside_peak_bytes": 3 << 20,
        "largest_result_bytes": 2 << 20,
        "after_first_step": state | {"not_numbers": 0},
        "after_last_step": state | {"not_numbers": 1, "found": 8, "identical": 8},
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder as a run leaves it, of a card that there is not."""
    folder = tmp_path / "results"
    folder.mkdir()
    machine = {"gpu": CARD.title, "driver": "1.2.3", "versions": {"torch": "2.14.1"}, "cuda": "13.0", "cudnn": 92400}
    machine |= {
        "date": "2026-01-02T03:04:05Z",
        "phantom": False,
        "nvidia_smi": {"clocks.sm": "345", "clocks.mem": "1593"},
    }
    (folder / names.MACHINE).write_text(json.dumps({"machine": machine}))
    spent = {
        "compile the core": {"wall_s": 60.4, "cpu_s": 59.6, "memory_bytes": 1 << 28},
        "trace of resnet-50": {"wall_s": 12.4, "cpu_s": 9.6, "memory_bytes": 3 << 29},
    }
    (folder / names.RUN).write_text(json.dumps({"machine": machine, "spent": spent}))
    for name in ("resnet-50", "swin-t"):
        recorded = measured(name)
        traces.save(recorded, folder / names.trace(name))
    for policy, numbers in {names.PLAIN: (100, 10, 120, 1.0), "coop": (110, 22, 138, 1.09)}.items():
        text = json.dumps(execution(policy, *numbers))
        (folder / names.execution("resnet-50", policy)).write_text(text)
    return folder


def test_the_page(results: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    page = results / report.REPORT
    monkeypatch.setattr("sys.argv", ["report.py", str(results)])
    assert report.main() == 0
    text = page.read_text()
    assert "NVIDIA H100 80GB HBM3, driver 1.2.3, torch 2.14.1" in text
    assert "clocks 345 / 1593 MHz" in text
    assert "Not recorded: bert-large, gpt3-2.7b" in text
    assert "| resnet-50 | committed trace | 569 / 569 / 569 | 0 |" in text
    assert "Not executed: resnet-50, dtr-oneflow." in text
    bars = "9.0 / 18.0 | 10.0 / 10.0 | 20.0 / 20.0 | 15.0 / 15.0"
    assert f"| resnet-50 | coop | 50 % | 7 | {bars} | 1024 / 1027 / 2 |" in text
    assert "| resnet-50 | coop | 9 of 10 (5.0e-01) | 8 of 10, 2 not there, 1 with NaN or infinities |" in text
    assert "No op differs." in text
    assert "| resnet-50 | 12 / 10 | - | - | - | - | - |" in text
    assert (
        "Compiling the core: 60 / 60. All tasks: 73 / 69, in two lanes side by side. The largest process: 1.5" in text
    )
    assert "No run was bisected." in text
    assert "Not compared with deterministic algorithms." in text
    for name in ("gpu-costs.png", "gpu-overhead.png"):
        assert f"(images/{name})" in text
        assert (results / "images" / name).stat().st_size > 10_000
    assert json.loads((results / "costs.json").read_text())["machine"]["gpu"] == CARD.title
    first = text, (results / "images" / "gpu-costs.png").read_bytes()
    assert report.main() == 0
    assert (page.read_text(), (results / "images" / "gpu-costs.png").read_bytes()) == first


def test_wall_clock_of_the_host_is_no_overhead() -> None:
    """Two steps of 100 and 110 ns of the GPU, of which a step without eviction takes twice as long."""
    plain, run = (
        execution(policy, *numbers) for policy, numbers in {"plain": (90, 5, 90, 1), "coop": (99, 6, 80, 1)}.items()
    )
    assert not executed.host_bound(plain)
    plain["wall_ns"] = [[400, 400]] * 3
    assert executed.host_bound(plain)
    lines = executed.section({("swin-t", names.PLAIN): plain, ("swin-t", "coop"): run}, {}, [])
    (row,) = [line for line in lines if line.startswith("| swin-t | coop | 50 %")]
    assert "| the host's |" in row
    assert any(line.startswith("The host decides the wall-clock time of swin-t") for line in lines)
    bits = {"swin-t": {"policies": {"coop": run}}}
    assert "The same with deterministic algorithms:" in executed.section({("swin-t", names.PLAIN): plain}, bits, [])


H100 = ROOT / "experiments" / "gpu" / "results" / "nvidia-h100-80gb-hbm3-2026-11-26"


def test_every_unequal_peak_has_a_cause() -> None:
    rows = peaks.load(H100)
    assert len(rows) == 109
    assert sum(map(peaks.equal, rows)) == 86
    for row in rows:
        assert bool(row["causes"]) == (not peaks.equal(row)), row["name"]
        assert set(row["causes"].split()) <= set(peaks.CAUSES), row["name"]


def test_live_kept_its_bytes_and_bits() -> None:
    """As docs/accuracy.md says."""
    cases = lived.load(H100)
    ran = [case for case in cases if case["exit"] == 0 and not case["failed"]]
    assert len(ran) == 13
    assert all(case["max_reserved"] == case["phantom_max_reserved"] for case in ran)
    same = [c for c in ran if c["name"].split()[0] in ("gpt-2", "bert")]
    assert all(case["bits"] == lived.plain_of(case, cases)["bits"] for case in same)


def test_the_page_has_what_the_files_say() -> None:
    from experiments.common.pages import read_section

    files = {(m, p): H100 / names.execution(m, p) for m in names.MAIN for p in (names.PLAIN, *names.POLICIES)}
    execution = {key: json.loads(file.read_text()) for key, file in files.items()}
    found = {"execution": execution, "peaks": peaks.load(H100), "live": lived.load(H100)}
    for name, section in report.briefly(found).items():
        assert read_section(name).strip() == section.strip(), name


def test_no_numbers_no_tables(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    machine = {
        "gpu": "?",
        "driver": "",
        "versions": {"torch": "0"},
        "cuda": "",
        "cudnn": 0,
        "date": "",
        "phantom": False,
    }
    (folder / names.MACHINE).write_text(json.dumps({"machine": machine}))
    found = report.derive(folder)
    assert figures.draw(found, tmp_path) == []
    assert "| --- |" not in tables.section(found, "results", [], report.EVERY)


def test_what_is_no_folder_of_results(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["report.py", str(tmp_path)])
    assert report.main() == 2
    assert capsys.readouterr().err == f"report.py: {tmp_path}: no results of experiments/gpu/run.py\n"


def test_a_rehearsal_has_a_report_and_is_no_evidence(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = results / names.MACHINE
    machine = json.loads(file.read_text())["machine"]
    file.write_text(json.dumps({"machine": machine | {"phantom": True}}))
    monkeypatch.setattr("sys.argv", ["report.py", str(results), "--accuracy"])
    assert report.main() == 2
    assert "was made on the phantom GPU: no evidence" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["report.py", str(results)])
    assert report.main() == 0
    assert "A rehearsal on the phantom GPU: no number here is evidence." in (results / report.REPORT).read_text()
