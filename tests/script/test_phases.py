"""Evaluation and generation inside a run have peaks of their own."""

from pathlib import Path

import pytest

from tests.script.command import report_of_text

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
    assert evaluation["added_bytes"] == 160 << 20  # its input is there before the call begins
    assert generation["added_bytes"] == (20 + 24 + 4 - 4) << 20  # likewise the first input of 4 MiB


@pytest.mark.slow
def test_a_run_without(tmp_path: Path) -> None:
    text = TEXT.replace("if i % 4 == 0:", "if False:").replace("GENERATES", "False")
    assert report_of_text(tmp_path, text)["phases"] == {}
