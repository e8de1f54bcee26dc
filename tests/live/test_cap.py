"""The budget is a cap on the GPU's memory: of what is allocated, and of what PyTorch's allocator takes for it."""

import pytest

from tests.conftest import Runner

TRAIN = """
import torch
from torch import nn
import coopsim.live
layers = [nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(32, 512, 512, device="cuda")
def train(nbytes, steps, cap=False):
    if cap:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((nbytes + 0.5) / total)
    budget, found = coopsim.live.Budget(f"{nbytes}B"), []
    for _ in range(steps):
        before = budget.report()
        with budget.step():
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        now = budget.report()
        found.append({key: now[key] - before[key] for key in ("planned_steps", "recomputes")})
    return {"steps": found, "reserved": torch.cuda.max_memory_reserved(), "left": now["peak_reserved_bytes"]}
"""
PLAIN = 2_700 << 20  #: what a step of it takes


@pytest.mark.parametrize("share", [pytest.param(70, marks=pytest.mark.slow), 50])
def test_steps_run_under_a_cap_of_exactly_the_budget(child: Runner, share: int) -> None:
    """set_per_process_memory_fraction at the budget: no step runs out of memory, and soon all go by plan."""
    budget = PLAIN * share // 100
    found = child(f"{TRAIN}answer(train({budget}, 6, cap=True))")
    assert found["left"] <= budget
    assert found["steps"][-1]["planned_steps"] == 1


def test_pages_above_the_cap_stay_from_step_to_step(child: Runner) -> None:
    """The allocator takes whole pages of 20 MiB: each step would give them back, and take them again."""
    text = """
import os, torch
from coopsim.live.cap import CachingCap
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
found = []
for mib in (95, 70):
    cap = CachingCap(mib << 20)
    cap.set()
    found.append(torch.cuda.memory_reserved() >> 20)
    cap.end()
answer(found)
"""
    assert child(text) == [100, 0]


@pytest.mark.slow
def test_the_allocator_takes_no_more_than_the_budget(child: Runner) -> None:
    """Without a cap of the program's own: what it takes in a planned step is seen to, and planned for."""
    budget = PLAIN // 2
    found = child(f"{TRAIN}train({budget}, 6); answer(train({budget}, 8))")
    assert found["reserved"] <= budget


def test_a_step_without_a_plan_runs_nothing_again(child: Runner) -> None:
    """The first steps have none."""
    budget = PLAIN * 45 // 100
    found = child(f"{TRAIN}answer(train({budget}, 2))")
    assert found["steps"] == [{"planned_steps": 0, "recomputes": 0}] * 2
    assert found["left"] <= 1.02 * budget
