"""The compiled observer does what the Python mode does, and less of it in Python."""

from pathlib import Path

import pytest

from tests.conftest import Runner

COUNT = """
import torch
from coopsim.live.mode import StepMode
from tests.live.compare import compare
calls, own = [], StepMode.__torch_dispatch__
def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    if self.state.planned: calls.append(str(func))
    return own(self, func, types, args, kwargs)
StepMode.__torch_dispatch__ = __torch_dispatch__
"""
ENTERED = """
from coopsim.live.observer import Observer, State
entered, engage, disengage = [], Observer.engage, Observer.disengage
def engaged(self, *given):
    self.so_far = self.state[State.PYTHON]
    engage(self, *given)
def disengaged(self):
    entered.append(self.state[State.PYTHON] - self.so_far)
    disengage(self)
Observer.engage, Observer.disengage = engaged, disengaged
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled(child: Runner) -> None:
    why = child("from coopsim.live import observer\nanswer(observer.find()[1])")
    if why:
        pytest.skip(why)


def test_it_does_what_python_does(child: Runner) -> None:
    """The same evictions and recomputations, the same peak and the same bits; and Python is not called for any."""
    call = 'answer([compare("accumulated", "75%", "coop", 4), len(calls), entered])'
    watched, calls, entered = child(COUNT + ENTERED + call)
    alone, all_calls, _ = child(COUNT + ENTERED + call, CXX="/nowhere/c++")
    assert watched["same"]
    assert alone["same"]
    assert watched["no_observer"] == ""
    assert alone["no_observer"] == "no C++ compiler (/nowhere/c++)"
    assert watched["planned_steps"] == alone["planned_steps"] == 3
    assert watched["evictions"] > 0
    assert watched["recomputes"] > 0
    assert calls == 0 < all_calls
    assert len(entered) == 3
    assert entered[-1] == 0  # it is followed from its first op on; in the others Python keeps the calls before that


SAME_PLAN = """
from tests.live.compare import compare
from tests.live.plans import PLAN
exec(PLAN)
import gc, os
def alone(name):
    gc.collect()  # bytes of the program before it would count
    return compare(name, None, steps=5, plan=f"{PATH}/{name}")
names = ["accumulated", "convolutions", "transformer", "foreach_and_clipping", "own_kernel"]
for name in names:
    path = f"{PATH}/{name}"
    if not os.path.exists(path): planned(name, path, 0.8)
answer({name: alone(name) for name in names})
"""
FIGURES = ("same", "steps", "planned_steps", "evictions", "recomputes", "deviations")


@pytest.mark.slow
def test_by_one_plan_it_does_the_same_as_python(child: Runner, tmp_path: Path) -> None:
    """Programs of several sorts by plans from a file, observed and in Python alone: the same is done."""
    text = f"PATH = {str(tmp_path)!r}\n{SAME_PLAN}"
    watched, alone = child(text), child(text, CXX="/nowhere/c++")
    for name, report in watched.items():
        assert report["same"], name
        assert report["evictions"] > 0, name
        assert [report[f] for f in FIGURES] == [alone[name][f] for f in FIGURES], name
        assert report["peak_allocated_bytes"] == pytest.approx(alone[name]["peak_allocated_bytes"], rel=0.02), name
    assert sum(report["recomputes"] for report in watched.values()) > 0


PLANT = """
import coopsim.live.observed as table
from tests.live.compare import compare
own = table._made
def made(plan, row):
    plan.mutates[row.entry.op] = set()
    return own(plan, row)
if FAULT == "dropout is drawn anew":
    table.draws = lambda func: 0
else:
    table._made = made
answer([compare(name, "60%", "coop", 5)["same"] for name in ("convolutions", "transformer")])
"""


@pytest.mark.parametrize(
    "fault", [pytest.param("dropout is drawn anew", marks=pytest.mark.slow), "an older version is overwritten"]
)
def test_planted_faults_show(child: Runner, fault: str) -> None:
    assert not all(child(f"FAULT = {fault!r}\n{PLANT}"))


def test_a_step_with_room_for_everything_is_python_s_no_more(child: Runner) -> None:
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
    assert found[-1] == 0
    assert (report["planned_steps"], report["deviations"]) == (6, 0)


def test_another_step_is_noticed_without_python(child: Runner) -> None:
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


def test_other_dispatch_modes_see_every_op(child: Runner) -> None:
    """As PyTorch's own counter of operations does, which is around the step."""
    steps = """
import torch
from torch.utils.flop_counter import FlopCounterMode
import coopsim.live
layers = [torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)) for _ in range(8)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(512, 64)
budget, found = coopsim.live.Budget("75%", device="cpu"), []
for i in range(6):
    with FlopCounterMode(display=False) as counter, budget.step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    found.append(counter.get_total_flops())
answer({"flops": found} | budget.report())
"""
    found = child(steps)
    assert found["no_observer"] == "other dispatch modes see every op"
    assert found["planned_steps"] >= 2
    assert min(found["flops"]) >= found["flops"][0] > 0


def test_a_kernel_in_python_that_finds_no_room_is_run_again(child: Runner) -> None:
    """PyTorch has such kernels of its own, of bmm on a GPU for one: they raise Python's error."""
    steps = """
import torch
import coopsim.live
planted = []
@torch.library.custom_op("coopsim_tests::twice", mutates_args=(), device_types="cuda")
def twice(x: torch.Tensor) -> torch.Tensor:
    if planted: raise planted.pop()
    return x * 2
twice.register_autograd(lambda ctx, gradient: gradient * 2)
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.zeros(256, 64, device="cuda")
budget = coopsim.live.Budget("8GiB")
for i in range(8):
    if i == 6: planted.append(torch.OutOfMemoryError("CUDA out of memory. Planted"))
    with budget.step():
        twice(model(x)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
answer([len(planted), budget.report()])
"""
    left, report = child(steps)
    assert left == 0
    assert (report["steps"], report["planned_steps"], report["deviations"]) == (8, 7, 0)


DEEP = """
import torch
import coopsim.live
from coopsim.live import step as steps
steps._SPILLS.add("cpu")
torch.set_num_threads(1)
layers = [layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""


@pytest.mark.parametrize("cxx", ["c++", "/nowhere/c++"])
def test_a_longer_batch_after_many_shorter_ones_keeps_to_the_budget(child: Runner, cxx: str) -> None:
    """Its ops are the same as theirs, whose plan evicts nothing."""
    steps = """
budget, found = coopsim.live.Budget("6MiB", device="cpu"), []
for n in [256] * 6 + [1024]:
    x = torch.randn(n, 64)
    with budget.step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    found.append(budget.report())
answer(found)
"""
    *short, longer = child(DEEP + steps, CXX=cxx)
    assert (short[-1]["planned_steps"], short[-1]["evictions"]) == (5, 0)
    assert short[-1]["peak_allocated_bytes"] < 3 << 20
    assert longer["offloads"] > 0
    assert longer["peak_allocated_bytes"] <= 6 << 20
    assert "works on larger tensors" in longer["deviated"]


def test_a_branch_that_needs_more_than_the_budget_goes_to_the_host(child: Runner) -> None:
    """The steps before it evict nothing, and nearly fill the budget."""
    steps = """
budget, found = coopsim.live.Budget("4MiB", device="cpu"), []
for again in [False] * 6 + [True]:
    with budget.step():
        y = model(torch.randn(512, 64))  # counted as it is made
        if again: y = model(torch.tanh(y))
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    found.append(budget.report())
answer(found)
"""
    *plain, branch = child(DEEP + steps)
    assert (plain[-1]["evictions"], plain[-1]["deviations"]) == (0, 0)
    assert 3 << 20 < plain[-1]["peak_allocated_bytes"] <= 4 << 20
    assert branch["deviations"] == 1
    assert branch["offloads"] > 0
    assert branch["peak_allocated_bytes"] <= 4 << 20
