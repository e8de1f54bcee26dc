"""The harness of live's table of first steps: a script's figures are live's, and its own faults end it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

PROGRAM = """
import torch
layers = torch.nn.Sequential(*(m for _ in range(8) for m in (torch.nn.Linear(1024, 1024), torch.nn.ELU()))).cuda()
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
x = torch.zeros(16384, 1024, device="cuda")
for _ in range(12):
    layers(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_a_script_has_a_row(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phantom_gpu: None
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "experiments" / "corpus"), *sys.path])
    module, file = script("experiments.live.first_steps"), tmp_path / "program.py"
    file.write_text(PROGRAM)
    server = module.Server()
    row = module.measured(server, file, ())
    assert not row["why"]
    assert row["planned_steps"] >= 9
    assert row["first"] <= module.MOST
    with pytest.raises(RuntimeError, match="no_such_key"):
        server.ran(file, (), {"no_such_key": 1})
