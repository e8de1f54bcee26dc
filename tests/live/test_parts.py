"""Optimizers that update their tensors in parts leave the same bits, and no op of theirs has all tensors."""

import pytest

from tests.conftest import Runner

TEXT = """
import copy
import torch
from torch import nn
from coopsim.live.step import Parts
from coopsim.record.observe.torch_private import TorchDispatchMode
from tests.live.compare import bits

class Sizes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func).startswith(("aten._foreach", "aten._fused")):
            most.append(max(len(one) for one in args if isinstance(one, list)))
        return func(*args, **(kwargs or {}))

def trained(parts):
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(20)), nn.Linear(16, 16).double())
    optimizer = getattr(torch.optim, NAME)(model.parameters(), **OPTIONS)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        x = torch.randn(4, 16)
        for k, layer in enumerate(model):
            x = layer(x.double() if k == 20 else x)
        scaler.scale(x.sum()).backward()
        most.clear()
        if parts:
            parts.watch()
        with Sizes():
            scaler.step(optimizer)
        if parts:
            parts.forget()
        scaler.update()
    return bits([model, optimizer]), max(most)

most = []
parts = Parts()
(wanted, whole), (found, short) = trained(None), trained(parts)
answer([wanted == found, whole, short, trained(None)[1]])
"""


@pytest.mark.parametrize(("name", "options"), [
    ("Adam", {"foreach": True, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"fused": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    ("RMSprop", {"foreach": True, "centered": True, "momentum": 0.9}),
    ("NAdam", {"foreach": True}),
])  # fmt: skip
def test_bits_are_the_same(child: Runner, name: str, options: dict[str, object]) -> None:
    """20 layers of one type, and one of another; weights are 16 times as large as biases."""
    same, whole, short, again = child(f"NAME, OPTIONS = {name!r}, {options!r}\n{TEXT}")
    assert same
    assert (whole, again) == (40, 40)
    assert short <= 4


def test_parts_have_a_sixteenth_or_one_tensor(child: Runner) -> None:
    text = "from coopsim.live.step import _cut\nanswer([list(_cut(sizes)) for sizes in SIZES])"
    sizes = [[1] * 32, [100, 1, 1, 100], [], [5]]
    found = [[(0, 1), (1, 3), (3, 4)], [(0, 0)], [(0, 1)]]
    cut = child(f"SIZES = {sizes!r}\n{text}")
    assert cut[0] == [[k, k + 2] for k in range(0, 32, 2)]
    assert cut[1:] == [[list(part) for part in parts] for parts in found]


ON_DEMAND = """
import gc
from contextlib import nullcontext
import torch
from torch import nn
import coopsim.live
from tests.live.compare import bits

def trained(memory):
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(40)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    budget = coopsim.live.Budget(memory) if memory else None
    for _ in range(4):
        x = torch.randn(16, 64)
        with budget.step() if budget else nullcontext():
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return bits([model, optimizer]), budget and budget.report()

torch.set_num_threads(1)
wanted, _ = trained(None)
gc.collect()
found, report = trained("2800KiB")
answer([wanted == found, report["planned_steps"], report["peak_allocated_bytes"] <= report["budget_bytes"]])
"""


def test_lists_are_short_where_there_is_no_room_for_whole_ones(child: Runner) -> None:
    """Parameters, gradients and state take 2600 KiB, and a list 650. The first steps have no plan, the others do."""
    assert child(ON_DEMAND) == [True, 2, True]
