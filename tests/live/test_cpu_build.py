"""Builds of PyTorch without CUDA, and those before 2.12, train inside a budget as others do."""

import json
import os
import subprocess

import pytest

from tests.conftest import ROOT, Runner

CPU_PYTHON = os.environ.get("COOPSIM_CPU_PYTHON")

TRAP = """
import torch
from coopsim.live.residency import check_storages, empty, fill
from coopsim.record.observe import torch_private
has = torch_private.has
torch_private.has = lambda path: "data_ptr" not in path and has(path)
check_storages()
tensor, other = torch.ones(1000), torch.full((1000,), 2.0)
empty(tensor.untyped_storage())
try:
    tensor.sum()
    said = ""
except RuntimeError as error:
    said = str(error)
fill(tensor.untyped_storage(), other.untyped_storage())
answer([said, tensor.sum().item(), tensor.resize_(2000).numel()])
"""

TRAIN = """
import gc, json
from contextlib import nullcontext
import torch
from torch import nn
import coopsim.live

def trained(memory):
    torch.manual_seed(1)
    layers = (layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)))
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    budget = coopsim.live.Budget(memory) if memory else None
    for _ in range(4):
        x = torch.randn(512, 64)
        with budget.step() if budget else nullcontext():
            model(x).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return [p.tolist() for p in model.parameters()], budget and budget.report()

torch.set_num_threads(1)
wanted, _ = trained(None)
gc.collect()
found, report = trained("2200KiB")
print(json.dumps(report | {"same": wanted == found}))
"""


def test_storages_are_emptied_and_reading_them_trapped_without_pytorch_s_own_functions(child: Runner) -> None:
    """As before 2.12, and in builds without CUDA."""
    said, total, resized = child(TRAP)
    assert said.startswith("coopsim: evicted")
    assert (total, resized) == (2000, 2000)


@pytest.mark.slow
@pytest.mark.skipif(not CPU_PYTHON, reason="COOPSIM_CPU_PYTHON names no Python with a CPU build of torch")
def test_a_step_in_less_memory_has_the_same_bits() -> None:
    """By plan and, in the first steps, without."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([str(CPU_PYTHON), "-c", TRAIN], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert found["evictions"] > 0
    assert found["planned_steps"] > 0
    assert found["peak_allocated_bytes"] <= found["budget_bytes"]
