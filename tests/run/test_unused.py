"""Tensors that no step reads: variables of several kinds, and others that look alike."""

from pathlib import Path

import pytest

from coopsim.base.text import human
from tests.run.command import report_of_text

pytestmark = pytest.mark.usefixtures("phantom_gpu")
MIB = 1 << 20

SCRIPT = """
import copy, torch

def net(n=4):
    return torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(n))).cuda()

class Trainer:
    def __init__(self):
        self.model = net()
        self.reference = copy.deepcopy(self.model)  # unused: 64 MiB
        self.ema = copy.deepcopy(self.model)  # used
        self.encoder = net(2).requires_grad_(False)  # used
        self.encoder.head = torch.nn.Linear(2048, 4096, bias=False).cuda()  # unused: 32 MiB
        self.data = [torch.randn(2048, 2048, device="cuda") for _ in range(20)]  # data, of which steps read some

    def train(self, path):
        state = torch.load(path)  # unused: 80 MiB
        self.model.load_state_dict({key: state["model"][key] for key in self.model.state_dict()})
        optimizer = torch.optim.AdamW(self.model.parameters())
        for step in range(5):
            x = self.encoder[1](self.encoder[0](self.data[step][:64]))
            self.model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            for mean, p in zip(self.ema.parameters(), self.model.parameters()):
                mean.data.mul_(0.9).add_(p.data)
            if step == 1:
                self.best = {key: value.clone() for key, value in net(3).state_dict().items()}  # unused: 48 MiB
                self.later = torch.zeros(16, 2048, 1024, device="cuda")  # data, and no copy of parameters

torch.save({"model": net(5).state_dict(), "step": 3}, "old.pt")
Trainer().train("old.pt")
"""


def test_each_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = report_of_text(tmp_path, SCRIPT)
    lines = SCRIPT.splitlines()
    said = [(one["name"], one["place"], one["bytes"] // MIB) for one in found["unused"]]
    at = {
        mib: f"train.py:{1 + next(i for i, row in enumerate(lines) if f'# unused: {mib} MiB' in row)}"
        for mib in (80, 64, 48)
    }
    assert said == [("state", at[80], 80), ("self.reference", at[64], 64), ("self.best", at[48], 48)]
    assert [one["later"] for one in found["unused"]] == [False, False, True]
    assert found["peak_by_kind"]["unused"] == (80 + 64 + 48 + 32) * MIB  # and of self.encoder.head


LOADED = """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(8))).cuda()
data = torch.randn(64, 2048, 2048, device="cuda")
torch.save(model.state_dict(), "old.pt")
loaded = torch.load("old.pt")
x = data[0]
model(x).square().mean().backward()
"""


@pytest.mark.slow
def test_memory_that_runs_out_in_the_first_step_names_what_has_the_sizes_of_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data set is not read by the forward pass either, but may be by later steps."""
    monkeypatch.chdir(tmp_path)
    found = report_of_text(tmp_path, LOADED, "--memory", "1500MiB")
    failed = found["out_of_memory"]
    assert failed is not None
    assert [one["name"] for one in found["unused"]] == ["loaded"]
    assert failed["held_bytes"]["unused"] == 128 * MIB, human(failed["held_bytes"]["unused"])
