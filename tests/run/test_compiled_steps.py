"""`step()` inside a compiled function, where no hook of the optimizer's is called, is a step all the same."""

from pathlib import Path

import pytest

from .compiled import report_of

SCRIPT = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(8, 64, device="cuda")

def loss(parameters):
    return torch.func.functional_call(model, parameters, x).square().mean()

def train():
    {}

train = torch.compile(train, backend="eager")
for i in range(4):
    {}
"""
STEP = "optimizer.step(); optimizer.zero_grad()"
GRADIENTS = """gradients = torch.func.grad(loss)(dict(model.named_parameters()))
    for name, p in model.named_parameters(): p.grad = gradients[name]
    optimizer.step()"""
#: In the compiled function; in the loop; how often it steps.
STEPS = {
    "with the backward pass": (f"model(x).square().mean().backward(); {STEP}", "train()", 4),
    "functional gradients": (GRADIENTS, "train()", 4),
    "gradients by hand": (
        STEP,
        "for p in model.parameters(): p.grad = torch.ones_like(p)\n    train()",
        4,
    ),
    "alone": (STEP, "model(x).square().mean().backward(); train()", 4),
    "every other pass": (STEP, "model(x).square().mean().backward()\n    if i % 2: train()", 2),
}


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.slow
@pytest.mark.parametrize("how", STEPS)
def test_a_compiled_step_is_counted(how: str, tmp_path: Path) -> None:
    inside, loop, steps = STEPS[how]
    (tmp_path / "train.py").write_text(SCRIPT.format(inside, loop), encoding="utf-8")
    report, _ = report_of("--gpu", "t4", "--", "python", tmp_path / "train.py")
    assert report["steps"] == steps
    assert report["compiled_graphs"] > 0
