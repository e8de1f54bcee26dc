"""The compiled follower and its plain reference in Python have done the same after every op that a program can see."""

from pathlib import Path

import pytest

from tests.conftest import Runner

PROGRAM = """
import os
from torch import nn
from coopsim.live.follow import Follow
from coopsim.live.observer import Kept
from tests.live.compare import compare
from tests.live.plans import PLAN
exec(PLAN)

def program():
    layers = nn.ModuleList([nn.Linear(96, 96) for _ in range(6)])
    norm = nn.BatchNorm1d(96)
    optimizer = torch.optim.SGD([*layers.parameters(), *norm.parameters()], 0.1, momentum=0.9, foreach=False)
    for parameter in (*layers.parameters(), *norm.parameters()):
        parameter.register_post_accumulate_grad_hook(lambda _: look())
    def step(i):
        x = torch.randn(192, 96)
        for layer in layers:
            for op in (layer, lambda y: y.mul_(1.5), lambda y: nn.functional.dropout(y, 0.1), torch.tanh):
                x = op(x)
                look()
                x.register_hook(lambda _: look())
        loss = norm(x).square().mean()
        look()
        loss.backward()
        for each in (optimizer.step, optimizer.zero_grad):
            each()
            look()
        return loss.item()
    return [*layers.parameters(), *norm.parameters(), *norm.buffers()], step

PROGRAMS["by hand"] = program
following, found, init = [], [], Follow.__init__
def begun(self, *given):
    init(self, *given)
    following[:] = [self]
Follow.__init__ = begun

def look():
    for follow in following:
        if 0 < follow.at < len(follow.rows) and not follow.broken:
            cells, calls = observed(follow) if follow.observed else python(follow)
            found.append([follow.at, sorted(cells), sorted(calls)])

def python(follow):
    cells = [
        [s, t.version, t.evicted, t.pinned, sorted(t.held)] for s, t in follow.storages.items() if t.ref() is not None
    ]
    return cells, list(follow.calls)

def observed(follow):
    numbers, cells, calls = follow._observed.observer.known(), [], []
    for _ in range(next(numbers)):
        s, address, _, version, gone, pinned, n = (next(numbers) for _ in range(7))
        held = sorted([next(numbers), next(numbers)][0] for _ in range(n))
        if address: cells.append([s, version, bool(gone), bool(pinned), held])
    for _ in range(next(numbers)):
        op, handle = next(numbers), next(numbers)
        calls.append(op)
        if handle: Kept(handle)
    return cells, calls

path = f"{PATH}/plan"
if not os.path.exists(path): planned("by hand", path, 0.7)
found.clear()
answer([compare("by hand", None, steps=5, plan=path), found])
"""


def test_after_each_op_values_are_where_the_reference_has_them(child: Runner, tmp_path: Path) -> None:
    """Versions, what is evicted, pinned and held, and which calls are kept."""
    text = f"PATH = {str(tmp_path)!r}\n{PROGRAM}"
    why = child("from coopsim.live import observer\nanswer(observer.find()[1])")
    if why:
        pytest.skip(why)
    (watched, after), (alone, expected) = child(text), child(text, CXX="/nowhere/c++")
    assert (watched["no_observer"], bool(alone["no_observer"])) == ("", True)
    assert watched["same"]
    assert alone["same"]
    assert [at for at, *_ in after] == [at for at, *_ in expected]
    for seen, wanted in zip(after, expected, strict=True):
        assert seen == wanted
    assert len(after) > 200
    assert any(evicted for _, cells, _ in after for _, _, evicted, *_ in cells)
    assert any(held for _, cells, _ in after for *_, held in cells)
