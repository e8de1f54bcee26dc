"""The compiled observer does what the Python mode does, and less of it in Python."""

import pytest

from tests.live.conftest import Child

COUNT = """
import torch
from coopsim.live.step import Step
from tests.live.compare import compare
calls, own = [], Step.__torch_dispatch__
def counted(self, func, types, args=(), kwargs=None):
    if self.follow is not None: calls.append(self.follow.state[0])
    return own(self, func, types, args, kwargs)
Step.__torch_dispatch__ = counted
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled(child: Child) -> None:
    why = child("from coopsim.live import observer\nanswer(observer.find()[1])")
    if why:
        pytest.skip(why)


def test_it_takes_views_from_python_on_the_cpu_and_leaves_the_same_bits(child: Child) -> None:
    call = 'answer([compare("accumulated", "75%", "coop", 4), len(calls), sum(calls)])'
    watched, calls, engaged = child(COUNT + call)
    alone, all_calls, _ = child(COUNT + call, CXX="/nowhere/c++")
    assert watched["same"]
    assert watched["no_observer"] == ""
    assert alone["same"]
    assert alone["no_observer"] == "no C++ compiler (/nowhere/c++)"
    assert watched["planned_steps"] == alone["planned_steps"] == 3
    assert engaged == calls < 0.9 * all_calls


def test_a_step_with_room_for_everything_is_python_s_no_more(child: Child) -> None:
    """On the GPU, where nothing has to be counted."""
    steps = """
layers = [torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
x = torch.zeros(4, 16, 64, device="cuda")
import coopsim.live
budget, found = coopsim.live.Budget("8GiB"), []
for _ in range(8):
    with budget.step():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    found.append(len(calls))
    calls.clear()
answer([found, budget.report()])
"""
    found, report = child(COUNT + steps)
    assert found[-1] < 10  # sums of gradients, which Python does in place
    assert (report["planned_steps"], report["deviations"]) == (6, 0)


def test_another_step_is_noticed_without_python(child: Child) -> None:
    """The same ops on other tensors, and another op, in steps that are only watched."""
    steps = """
import coopsim.live
a, b = (torch.nn.Linear(64, 64).cuda() for _ in range(2))
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], 0.1)
x = torch.zeros(256, 64, device="cuda")
def step(first, second, last):
    with budget.step():
        last(second(torch.relu(first(x)))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
budget = coopsim.live.Budget("8GiB")
for _ in range(6): step(a, b, torch.relu)
before = budget.report()
step(a, b, torch.tanh)
for _ in range(6): step(a, b, torch.relu)
answer([before, budget.report()])
"""
    before, after = child(COUNT + steps)
    assert (before["deviations"], after["deviations"]) == (0, 1)
    assert "aten.tanh" in after["deviated"]
    assert after["steps"] == 13
