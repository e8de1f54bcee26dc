"""Recording on a real GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim import phantom, trace
from coopsim.record.capture import CaptureError, Job, capture

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
