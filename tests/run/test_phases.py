"""Evaluation and generation inside a run have peaks of their own."""

from pathlib import Path

import pytest

from tests.run.command import report_of_text

pytestmark = pytest.mark.usefixtures("phantom_gpu")

TEXT = """
import torch
from torch import nn

net = nn.Linear(1024, 1024).cuda()
teacher = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def generate(n):
    cache = torch.zeros(0, 1024, device="cuda")
    for _ in range(n):
        cache = torch.cat([cache, net(torch.zeros(1024, 1024, device="cuda"))])


for i in range(1, 9):
    out = net(torch.zeros(1024, 1024, device="cuda"))
    with torch.no_grad():
        teacher(out)
    out.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    del out
    if i == 4:
        print(net.weight)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    if i % 4 == 0:
        with torch.inference_mode():
            net(torch.zeros(40 * 1024, 1024, device="cuda"))
            if GENERATES:
                generate(6)
"""


def test_phases(tmp_path: Path) -> None:
    """Outputs of 160 MiB; a cache of 24 MiB beside the one of 20 MiB and the output of 4 MiB of which it is made."""
    report = report_of_text(tmp_path, TEXT.replace("GENERATES", "True"))
    evaluation, generation = report["phases"]["evaluation"], report["phases"]["generation"]
    assert evaluation["times"] == generation["times"] == 2
    assert evaluation["peak_allocated_bytes"] == report["peak_allocated_bytes"]
    # With its input, which is there before the call begins, and without 8 MiB, gradients and `out`, that are not.
    assert evaluation["added_bytes"] == pytest.approx((160 + 160 - 8) << 20, abs=1 << 14)
    later = report["phases"]["later steps"]["peak_allocated_bytes"]
    assert later == report["phases"]["first step"]["peak_allocated_bytes"]  # the evaluation's input is none of theirs
    assert report["steps"] == 8  # those of the second optimizer, too
    assert report["needs_data"] == []  # what is printed decides of no size
    assert report["other_masks"] is None
    assert generation["added_bytes"] == (20 + 24 + 4 - 4) << 20  # likewise the first input of 4 MiB


@pytest.mark.slow
def test_a_run_without(tmp_path: Path) -> None:
    text = TEXT.replace("if i % 4 == 0:", "if False:").replace("GENERATES", "False")
    phases = report_of_text(tmp_path, text)["phases"]
    assert list(phases) == ["load", "first step", "later steps"]
    assert phases["load"]["peak_allocated_bytes"] < phases["first step"]["peak_allocated_bytes"]


KEEPS = """
import torch

net = torch.nn.Linear(1024, 4096).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.zeros(40 * 256, 1024), batch_size=256)


@torch.no_grad()
def evaluate():
    outputs, total = [], 0
    for x in data:
        outputs.append(net(x.cuda()))
        total += outputs[-1].mean().item()
    return torch.cat(outputs)


for epoch in range(2):
    net(torch.zeros(256, 1024, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    evaluate()
"""


def test_an_evaluation_that_keeps_its_outputs(tmp_path: Path) -> None:
    """They take 4 MiB a batch; 100 MiB are full in the second evaluation at the latest."""
    report = report_of_text(tmp_path, KEEPS, "--memory", "260MiB")
    failed, evaluation = report["out_of_memory"], report["phases"]["evaluation"]
    assert (failed["phase"], failed["step"], failed["batches"]) == ("evaluation", 2, 40)
    assert 10 < failed["batch"] < 40
    assert evaluation["grows_bytes"] == 4 << 20
    assert [(one["name"], one["place"]) for one in report["evaluation_keeps"]] == [("outputs", "train.py:13")]


@pytest.mark.slow
def test_an_evaluation_that_keeps_nothing(tmp_path: Path) -> None:
    text = KEEPS.replace("outputs.append(net(x.cuda()))", "outputs = [net(x.cuda())]")
    report = report_of_text(tmp_path, text)
    assert report["phases"]["evaluation"]["grows_bytes"] == 0
    assert report["phases"]["evaluation"]["batches"] == 40
    assert report["evaluation_keeps"] == []


LEAVES = """
import torch

net = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for epoch in range(5):
    net.train()
    net(torch.zeros(256, 1024, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    net.eval()
    kept.append(torch.zeros(1024, 1024, device="cuda"))
    total = 0
    for batch in range(6):
        total += net(torch.zeros(1024, 1024, device="cuda")).square().mean()
"""


def test_an_evaluation_with_gradients_that_leaves_something(tmp_path: Path) -> None:
    """Each call keeps its input and its output, 4 MiB each; each evaluation, 4 MiB."""
    evaluation = report_of_text(tmp_path, LEAVES)["phases"]["evaluation"]
    assert (evaluation["times"], evaluation["batches"], evaluation["with_gradients"]) == (5, 6, 30)
    assert 8 << 20 <= evaluation["grows_bytes"] < 9 << 20
    assert evaluation["left_bytes"] == 4 << 20


@pytest.mark.slow
def test_training_in_evaluation_mode_is_training(tmp_path: Path) -> None:
    """Only the first such call is taken for evaluation."""
    text = LEAVES.replace("    net.train()\n", "").replace("for batch in range(6)", "with torch.no_grad()")
    evaluation = report_of_text(tmp_path, text)["phases"]["evaluation"]
    assert evaluation["with_gradients"] == 0


SIZES = """
import torch

net = torch.nn.Conv2d(3, 4, 3).cuda()
head = torch.nn.Linear(4, 4).cuda()  # its inputs have one size, but for a smaller last batch
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch, size in ((8, 32), (8, SIZE), (8, 32), (3, 32)):
    head(net(torch.zeros(batch, 3, size, size, device="cuda")).mean((2, 3))).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("size", "found"), [(64, {"seen": 3, "largest": [8, 3, 64, 64]}), pytest.param(32, None, marks=pytest.mark.slow)]
)
def test_sizes_of_inputs_that_vary(size: int, found: object, tmp_path: Path) -> None:
    assert report_of_text(tmp_path, SIZES.replace("SIZE", str(size)))["input_sizes"] == found
