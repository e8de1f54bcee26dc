"""A step larger than its card is recorded for it; the card's memory is a limit only if it is asked for."""

from pathlib import Path

from coopsim.cards import profiles
from coopsim.record.capture import Job, capture
from coopsim.trace import load

LARGE = """
import torch
card = {total}
assert torch.cuda.get_device_properties(0).total_memory == torch.cuda.mem_get_info()[1] == card
weight = torch.ones(1 << 30, device="cuda", requires_grad=True)
def step():
    loss = weight.exp().sin().exp().sum()
    assert torch.cuda.mem_get_info() == (0, card), "a program is told the card's memory"
    loss.backward()
    weight.grad = None
"""
SMALL = """
import torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(8)).cuda()
x = torch.randn(64, 3, 64, 64, device="cuda")
def step():
    net(x).square().mean().backward()
    net.zero_grad()
"""


def test_a_step_larger_than_its_card(phantom_gpu: None, tmp_path: Path) -> None:
    card, said = profiles.get("rtx-3060"), []
    (tmp_path / "train.py").write_text(LARGE.format(total=card.memory_bytes))
    capture(Job(f"{tmp_path}/train.py:step", tmp_path / "t.parquet", card="rtx-3060"), said.append)
    trace = load(tmp_path / "t.parquet")
    assert trace.header["card"] == "rtx-3060"
    assert trace.header["peak_reserved_bytes"] > card.memory_bytes
    assert any(line.endswith("more than the NVIDIA GeForce RTX 3060 has (11.75 GiB)") for line in said)


def test_a_step_that_fits_is_the_same_with_the_limit(record) -> None:
    options = {"card": "rtx-3060", "workspaces": "rule"}  # of cuDNN: what does not fit is not taken
    assert record(SMALL, **options).read_bytes() == record(SMALL, limit=True, **options).read_bytes()
