"""Values that all others come from may be freed or overwritten by the program, in steps without a plan."""

from tests.conftest import Runner

TEXT = """
import gc
from contextlib import nullcontext
import torch
from torch import nn
from torch.nn import functional
import coopsim.live
from tests.live.compare import bits

def root(how, x):
    if how == "made unseen, small":
        return x * torch.tensor(1.5)
    if how == "made unseen, as large as what comes from it":
        return x * torch.tensor([[1.5] * 64] * 512)
    x = x * counter
    counter.add_(1)
    return x

def trained(how, memory):
    torch.manual_seed(1)
    layers = (layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)))
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    budget = coopsim.live.Budget(memory) if memory else None
    counter.fill_(1)
    for _ in range(2):
        x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
        with budget.step() if budget else nullcontext():
            optimizer.zero_grad()
            functional.cross_entropy(model(root(how, x)), y).backward()
            optimizer.step()
    return bits([model, optimizer]), budget and budget.report()

torch.set_num_threads(1)
counter, found = torch.ones(1), []
for how in HOW:
    wanted, _ = trained(how, None)
    gc.collect()
    same, report = trained(how, "2200KiB")
    found.append([wanted == same, report["evictions"] > 0, report["peak_allocated_bytes"] <= report["budget_bytes"]])
    gc.collect()
answer(found)
"""


def test_what_comes_from_them_can_be_evicted(child: Runner) -> None:
    how = ["made unseen, small", "made unseen, as large as what comes from it", "overwritten, small"]
    assert child(f"HOW = {how!r}\n{TEXT}") == [[True] * 3] * 3
