"""Other places to record than the phantom GPU: a real one, and none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coopsim import phantom, trace
from coopsim.capture import CaptureError, Job, capture, fake_guard
from coopsim.observe.cost_table import read
from tests.conftest import ROOT

STEP = """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4), nn.Dropout())
net = net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
x, y = torch.randn(5, 3, 8, 8).cuda(), torch.zeros(5, dtype=torch.long, device="cuda")
def step():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
"""
#: A Python with a CPU build of torch, to prove the fallback with.
CPU_PYTHON = os.environ.get("COOPSIM_CPU_PYTHON")


def test_a_real_gpu_is_rehearsed_on_the_phantom(record, tmp_path: Path) -> None:
    """`--device cuda` asks nothing of coopsim's own runtime. Here a kernel takes 3 us."""
    (tmp_path / "program.py").write_text(STEP)
    command = [sys.executable, "-m", "coopsim", "capture", f"{tmp_path / 'program.py'}:step", "--device", "cuda"]
    environment = os.environ | phantom.environment("h100-80gb")
    done = subprocess.run([*command, "-o", str(tmp_path / "T")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "measuring, pass 5 of 5" in done.stderr
    real, simulated = trace.load(tmp_path / "T"), trace.load(record(STEP, card="h100-80gb"))
    assert real.header["device"] == "NVIDIA H100 80GB HBM3"
    assert real.header["cost_source"] == (
        "measured on an NVIDIA H100 80GB HBM3: CUDA events around each op after a sleep, median of 5 passes, less 1000 "
        "ns for the events"
    )
    assert list(real.name) == list(simulated.name)
    assert real.bytes.tolist() == simulated.bytes.tolist()
    assert real.cost_ns.any()
    kernel = "aten.relu.default"
    # The host launches it while the GPU sleeps.
    assert set(real.cost_ns[[name == kernel for name in real.name]].tolist()) == {3000}
    assert simulated.cost_ns.any()


def test_no_gpu_is_said_in_one_line(phantom_gpu: None, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STEP)
    with pytest.raises(CaptureError, match=r"torch cannot be imported here, which a real GPU needs|finds no GPU"):
        capture(Job(f"{tmp_path / 'program.py'}:step", tmp_path / "T", device="cuda"))
    assert not (tmp_path / "T").exists()


def row(recorded: trace.Trace, op: int, temporaries: list[int], requests: list[int], count: int) -> dict[str, object]:
    """Of a table of temporaries, as experiments/gpu/report.py writes it."""
    creates = recorded.bytes[recorded.creates.rows()[op]].tolist()
    facts = {"op": recorded.name[op], "flops": int(recorded.flops[op]), "bytes_moved": int(recorded.bytes_moved[op])}
    seen = {"gpu": temporaries, "phantom": [], "requests": requests, "count": count}
    return facts | {"creates": creates} | seen


def test_costs_and_temporaries_from_tables(record, tmp_path: Path) -> None:
    plain = trace.load(record(STEP))
    convolution, relu = (list(plain.name).index(f"aten.{op}.default") for op in ("convolution", "relu"))
    flops, nbytes = int(plain.flops[convolution]), int(plain.bytes_moved[convolution])
    costs = tmp_path / "table.csv"
    costs.write_text(
        "op,flops,bytes_moved,cost_ns\n"
        f"aten.convolution.default,{flops},{nbytes},111\n"
        f"aten.convolution.default,{flops},{nbytes},113\n"
        f"aten.relu.default,0,{2 * int(plain.bytes_moved[relu])},5000\n"
        "aten.relu.default,0,1,77\n"
    )
    rows = [
        row(plain, convolution, [4096], [4096, -2, -1], 1),
        row(plain, convolution, [1 << 20, 512], [1 << 20, -1, 512, -2, -3], 2),
    ]
    rows.append(rows[1] | {"flops": 7})  # another op
    table = tmp_path / "temporaries.json"
    table.write_text(json.dumps({"machine": {}, "content": {"a": rows[:1], "b": rows[1:]}}))
    filled = trace.load(record(STEP, cost_from=costs, temporaries_from=table))
    assert filled.cost_ns[convolution] == 112
    assert filled.cost_ns[relu] == 2500
    others = np.array([name not in ("aten.convolution.default", "aten.relu.default") for name in plain.name])
    assert (filled.cost_ns[others] == plain.cost_ns[others]).all()
    assert filled.header["cost_source"].startswith("table table.csv (calls known to it: 1 exactly, 1 scaled, ")
    assert filled.temporaries.rows()[convolution] == [1 << 20, 512]
    assert filled.requests.rows()[convolution] == [1 << 20, -1, 512, -2, -3]
    same = [i for i in range(plain.n_ops) if plain.name[i] != plain.name[convolution]]
    assert [filled.temporaries.rows()[i] for i in same] == [plain.temporaries.rows()[i] for i in same]
    assert filled.header["temporaries"].endswith(" ops from table temporaries.json; the rest: allocator history")
    assert filled.header["command"].endswith("--temporaries-from temporaries.json")


def test_a_trace_is_a_table(record, tmp_path: Path) -> None:
    file = record(STEP, card="h100-80gb")
    priced = trace.load(record(STEP, cost_from=file))
    assert priced.cost_ns.tolist() == trace.load(file).cost_ns.tolist()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"content": {"m": [{"op": "a"}]}}', '{"content": {"m": 3}}'])
def test_bad_tables_of_temporaries(text: str, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(text)
    with pytest.raises(CaptureError, match=r"table.json: no table of temporaries"):
        capture(Job("unet", tmp_path / "t.parquet", temporaries_from=table))
    with pytest.raises(CaptureError, match="a real GPU's temporaries are seen"):
        capture(Job("unet", tmp_path / "t.parquet", temporaries_from=table, device="cuda"))
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "": "lacks one of the columns op, flops, bytes_moved, cost_ns",
        "op,flops\na,1\n": "lacks one of the columns",
        "op,flops,bytes_moved,cost_ns\n": "has no rows",
        "op,flops,bytes_moved,cost_ns\na,1,2\n": "line 2 does not hold whole numbers",
        "op,flops,bytes_moved,cost_ns\na,1,2,x\n": "line 2 does not hold whole numbers",
        "op,flops,bytes_moved,cost_ns\na,1,2,-3\n": "line 2 has a negative number",
    }.items(),
)
def test_bad_tables(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CaptureError, match=message):
        read(tmp_path / "t.csv")


def test_fake_tensors_are_refused_where_the_phantom_can_be_had(phantom_gpu: None) -> None:
    with pytest.raises(CaptureError, match=r"is a CUDA build: record without --device, on the phantom GPU"):
        fake_guard.variables()


@pytest.mark.skipif(not CPU_PYTHON, reason="COOPSIM_CPU_PYTHON names no Python with a CPU build of torch")
def test_fake_tensors_give_the_same_step(record, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STEP)
    command = [
        str(CPU_PYTHON),
        "-m",
        "coopsim",
        "capture",
        f"{tmp_path / 'program.py'}:step",
        "-o",
        str(tmp_path / "T"),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "record with --device fake" in refused.stderr
    done = subprocess.run([*command, "--device", "fake"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, exact = trace.load(tmp_path / "T"), trace.load(record(STEP))
    assert len(found.header["approximations"]) == 5
    assert list(found.name) == list(exact.name)
    assert found.bytes.tolist() == exact.bytes.tolist()
    assert found.cost_ns.tolist() == exact.cost_ns.tolist()
