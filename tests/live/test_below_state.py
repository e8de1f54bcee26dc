"""Budgets below what parameters, the optimizer's state and one op need together: the state goes to the host."""

import pytest

from tests.conftest import Runner

#: The loss takes four times what the parameters take, and Adam's state twice: 9 MiB with all of them, 7 without state.
TEXT = """
import torch
from torch import nn
from coopsim.live import LiveError
from tests.live.compare import FastHost, compare
from tests.live.programs import PROGRAMS

def words():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4096, bias=False))
    optimizer = torch.optim.Adam(model.parameters(), foreach=FOREACH)
    x, y = torch.randn(128, 64), torch.arange(128)
    def step(i):
        loss = nn.functional.cross_entropy(model(x + i), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return [model, optimizer], step

PROGRAMS["words"] = words
found = []
for state in (True, False):
    try:
        found.append(compare("words", MEMORY, steps=7, offload=FastHost(state=state)))
    except LiveError as error:
        found.append(str(error))
answer(found)
"""


@pytest.mark.slow
@pytest.mark.parametrize("foreach", [False, True])
def test_bits_are_the_same_and_the_budget_holds(child: Runner, foreach: bool) -> None:
    """From the second step on, which is recorded and has no plan; without the switch the budget is refused."""
    text = TEXT.replace("FOREACH", str(foreach)).replace("MEMORY", repr("8MiB"))
    sent, refused = child(text)
    assert "whatever is evicted" in refused or "nothing more to evict" in refused
    assert sent["same"]
    assert sent["offloads"] > 0
    assert sent["peak_allocated_bytes"] <= sent["budget_bytes"]
    assert sent["planned_steps"] >= 3, sent
