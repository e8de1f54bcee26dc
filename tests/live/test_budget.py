"""What a budget says of itself, what it refuses, and that it leaves PyTorch as it was."""

import re

from tests.conftest import Runner

BEGIN = """
import torch
from torch import nn
import coopsim.live
from coopsim.base.types import CoopsimError
from tests.live.programs import net, batch, plain
def said(call):
    try: call()
    except CoopsimError as error: return str(error)
    return ""
def one(step, memory="75%", steps=1):
    budget = coopsim.live.Budget(memory)
    for i in range(steps):
        with budget.step(): step(i)
    return budget
"""

KEYS = {
    *("budget_bytes", "steps", "planned_steps", "peak_allocated_bytes", "peak_reserved_bytes", "evictions"),
    *("recomputes", "deviations", "replans", "device_calls", "predicted_overhead", "predicted_ns", "policy"),
}


def test_report_has_its_keys(child: Runner) -> None:
    share, report, now = child(
        f"{BEGIN}share = repr(coopsim.live.Budget('75%'))\n"
        "budget = one(plain(net())[1], steps=4)\nanswer([share, budget.report(), repr(budget)])"
    )
    assert share == "<Budget of 75%, foresight-offline, 0 steps so far>"
    assert re.fullmatch(r"<Budget of [\d.]+ KiB, foresight-offline, 4 steps so far>|.*MiB, .* 4 steps so far>", now)
    assert set(report) >= KEYS
    assert (report["steps"], report["planned_steps"], report["policy"]) == (4, 2, "foresight-offline")
    assert report["predicted_overhead"] >= 1
    assert 0 < report["peak_allocated_bytes"] <= report["budget_bytes"]


def test_a_failure_is_over_with_the_next_step_that_is_well(child: Runner) -> None:
    text = """
budget, step = coopsim.live.Budget("75%"), plain(net())[1]
def fail():
    with budget.step(): raise coopsim.live.LiveError("no room")
found = [said(fail), str(budget.session.failure)]
with budget.step(): step(0)
answer([*found, budget.session.failure])
"""
    assert child(BEGIN + text) == ["no room", "no room", None]


def test_amounts_that_are_none(child: Runner) -> None:
    texts = ["8", "8GO", "-3GiB", "120 %%"]
    program = "from coopsim.base.types import CoopsimError\nfound = []\n"
    program += (
        f"for text in {texts!r}:\n  try: coopsim.live.Budget(text)\n  except CoopsimError as e: found.append(str(e))\n"
    )
    found = child(f"{BEGIN}{program}answer(found)")
    assert len(found) == len(texts)
    assert all("\n" not in line for line in found)


def test_what_cannot_be_followed_is_refused_in_one_line(child: Runner) -> None:
    program = """
class FSDPModule(nn.Module):
    def forward(self, x): return x
wrapped = nn.Sequential(net(), FSDPModule())
found = {"fsdp": said(lambda: one(plain(wrapped)[1]))}
del wrapped
import gc; gc.collect()
from torch.testing._internal.two_tensor import TwoTensor
def two(i): (TwoTensor(torch.ones(4), torch.ones(4)) * 2).sum()
found["subclass"] = said(lambda: one(two))
def resize(i): torch.ones(4, requires_grad=True).sum().backward(); torch.ones(4).resize_(64).add_(1)
found["resize"] = said(lambda: one(resize))
def graph(i): torch.cuda.CUDAGraph().replay()
found["graph"] = said(lambda: one(graph))
weight = nn.Parameter(torch.ones(4, device="cuda"))
kept = torch.cuda.CUDAGraph()  # which may be replayed between steps
found["kept"] = said(lambda: one(lambda i: weight * 2))
del kept
def elsewhere(i): (weight * 2).to("cuda:1").mul(2)
found["other"] = said(lambda: one(elsewhere))
compiled = torch.compile(net(), backend="aot_eager")
found["compile"] = said(lambda: one(plain(compiled)[1]))
answer(found)
"""
    found = child(BEGIN + program, COOPSIM_PHANTOM_DEVICES="2")
    for what, words in {
        "fsdp": "FSDP moves parameters",
        "subclass": "TwoTensor dispatches its ops itself",
        "resize": "resizes a storage",
        "other": "a tensor is on cuda:1, and the step began on cuda:0",
        "graph": "CUDA graphs hide their ops",
        "kept": "CUDA graphs hide their ops",
        "compile": "torch.compile hides its ops",
    }.items():
        assert words in found[what], (what, found[what])
        assert "\n" not in found[what]


def test_a_step_that_uses_nothing_on_the_device_is_not_planned(child: Runner) -> None:
    program = "torch.zeros(1, device='cuda')\nanswer(one(lambda i: None, {!r}, 4).report())"
    for memory in ("1GiB", "50%"):
        report = child(BEGIN + program.format(memory))
        assert (report["steps"], report["planned_steps"], report["unplanned"]) == (4, 0, "no step has used the device")


def test_a_budget_that_holds_nothing_is_refused(child: Runner) -> None:
    line = child(f"{BEGIN}answer(said(lambda: one(plain(net())[1], '64KiB', steps=2)))")
    assert "whatever is evicted" in line


def test_an_error_in_a_step_leaves_everything_readable(child: Runner) -> None:
    """The program's own error goes through, what was evicted is back, and PyTorch's classes are as they were."""
    program = """
model = net()
before = dict(torch.Tensor.__dict__)
_, step = plain(model)
budget = one(step, steps=3)
kept = []
def broken():
    x, y = batch()
    for layer in model: kept.append(x := layer(x))
    raise ValueError("mine")
try:
    with budget.step(): broken()
except ValueError as error: said = str(error)
wanted = all(bool(torch.isfinite(t).all()) for t in kept)
with budget.step(): step(0)
answer([said, wanted, dict(torch.Tensor.__dict__) == before, budget.report()["steps"]])
"""
    assert child(BEGIN + program) == ["mine", True, True, 4]


def test_steps_do_not_nest(child: Runner) -> None:
    program = """
budget = coopsim.live.Budget("75%")
def nested():
    with budget.step():
        with budget.step(): pass
answer(said(nested))
"""
    assert "inside another" in child(BEGIN + program)


HOST = """
import torch
from torch import nn
from coopsim.live import Budget
cloned, clone = [], torch.Tensor.clone
def counted(tensor, *args, **kwargs):
    cloned.append(tensor.nbytes if tensor.device.type == "cpu" else 0)
    return clone(tensor, *args, **kwargs)
torch.Tensor.clone = counted
data, model = torch.randn(1024, 64), nn.Linear(64, 64).cuda()
optimizer, budget = torch.optim.SGD(model.parameters(), 0.1), Budget("1GiB")
for i in range(2):
    with budget.step():
        batch = torch.stack([data[j] for j in range(8 * i, 8 * i + 8)])
        model(batch.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
answer([max(cloned), data.nbytes, batch.nbytes])
"""


def test_a_recorded_step_copies_of_the_hosts_data_what_goes_to_the_gpu(child: Runner) -> None:
    """And not the data set each time that the program takes an example of it."""
    most, all_of_it, batch = child(HOST)
    assert most == batch < all_of_it


GRADIENT_SUMS = """
import coopsim.live, torch
torch.manual_seed(0)
layer = torch.nn.Linear(64, 64)
x = torch.randn(32, 64)
budget = coopsim.live.Budget("1GiB", device="cpu")
for _ in range(4):
    with budget.step():
        h = layer(x)
        (h.sigmoid() + h.tanh() + h.cos()).sum().backward()
        layer.zero_grad()
(kind,) = budget.session.known.signatures
names = [str(entry.func) for entry in kind.op_log]
backward = next(i for i, name in enumerate(names) if "_backward" in name)
answer([names[backward:], budget.report()])
"""


def test_gradients_are_added_in_place_as_without_a_budget(child: Runner) -> None:
    """Autograd's sums are told from a program's own by the stack, on which a frame of ours would hide them."""
    backward, report = child(GRADIENT_SUMS)
    assert backward.count("aten.add_.Tensor") == 2
    assert backward.count("aten.add.Tensor") == 0
    assert (report["planned_steps"], report["deviations"]) == (3, 0)
