"""Ctrl-C and errors end a step, and leave all as it would be without a budget."""

import pytest

from tests.conftest import Runner

IMPORT = "import torch; torch.set_num_threads(1)\nfrom tests.live import interrupted\n"


@pytest.mark.parametrize(
    ("step", "n"),
    [(0, 2), (4, 3), pytest.param(0, 50, marks=pytest.mark.slow), pytest.param(4, 50, marks=pytest.mark.slow)],
)
def test_ctrl_c_at_random_moments(child: Runner, step: int, n: int) -> None:
    """While a step is recorded, and while it goes by plan: modes and patches are gone, and what it had is there."""
    assert child(f"{IMPORT}answer(interrupted.at_random({step}, {n}, {n}))") == []


def test_ctrl_c_as_a_step_ends(child: Runner) -> None:
    """Among the first and the last of its calls."""
    assert child(f"{IMPORT}answer(interrupted.at_the_end(4, (60, 20)))") == []


@pytest.mark.parametrize("where", ["forward", "op", "backward", "hook", "optimizer"])
def test_an_error_of_the_program(child: Runner, where: str) -> None:
    assert child(f"{IMPORT}answer(interrupted.failed({where!r}))") == []


@pytest.mark.slow
def test_what_is_not_undone_shows(child: Runner) -> None:
    plant = "from coopsim.live.mode import StepMode; StepMode.undo = lambda self: None\n"
    assert child(f"{IMPORT}{plant}answer(interrupted.at_the_end(4, range(8, 64, 4)))")


CALLBACK = """
import signal, sys
import numpy as np, torch, coopsim.live
from coopsim.live.observer import Observer
own, N, said = Observer._foreign, [0], []
sys.unraisablehook = said.append
def foreign(self, address):
    N[0] += 1
    if N[0] == 3: raise ERROR
    return own(self, address)
Observer._foreign = foreign
net = torch.nn.Sequential(*(m for _ in range(6) for m in (torch.nn.Linear(64, 64), torch.nn.GELU())))
opt = torch.optim.SGD(net.parameters(), 0.1)
budget, steps = coopsim.live.Budget("60%", device="cpu"), 0
try:
    for i in range(8):
        with budget.step():
            h = net(torch.randn(256, 64) + torch.from_numpy(np.ones((256, 64), dtype=np.float32)).view(256, 64))
            h.reshape(-1, 64).square().mean().backward(); opt.step(); opt.zero_grad()
        steps += 1
except (KeyboardInterrupt, TimeoutError) as error:
    answer([type(error).__name__, steps, len(said)])
answer(["", steps, len(said)])
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "TimeoutError"])
def test_what_the_observer_s_callbacks_raise_reaches_the_program(child: Runner, error: str) -> None:
    """Also what a signal's handler raises there."""
    found, steps, said = child(CALLBACK.replace("ERROR", error))
    assert (
        found in (error, "")
        if child("from coopsim.live import observer; answer(observer.find()[1])")
        else found == error
    )
    assert steps < 8
    assert not said


def test_that_a_callback_finds_no_room_is_not_said(child: Runner) -> None:
    """As Python does then what the callback was to do, and will find that itself."""
    assert child(CALLBACK.replace("ERROR", "torch.OutOfMemoryError()")) == ["", 8, 0]


NO_ROOM = """
import torch
from tests.live.made_up import ATEN, parts
step = parts()
step.context.runner.keep_calls(True)
given = [torch.full((256,), float(i)) for i in range(3)]
made = [step.run(ATEN.mul.Scalar, one, 2) for one in given]
for one in made: step.evict(one)
values, room = step.context.values, []
execute, of_one = values.execute, step.tracked(made[1]).makers[0]
def short(call, *how):
    if call is of_one and not room: raise torch.OutOfMemoryError("no room")
    return execute(call, *how)
values.execute = short
try:
    values.finish()
    first = "nothing was raised"
except torch.OutOfMemoryError as error: first = str(error)
left = step.evicted(*made).count(True)
room.append(1)
values.finish()
answer([first, left, [one.unique().tolist() for one in made]])
"""


def test_what_finds_no_room_comes_back_later(child: Runner) -> None:
    """The other values come back at once; nothing that it is made of is dropped."""
    first, left, made = child(NO_ROOM)
    assert first == "no room"
    assert left == 1
    assert made == [[0.0], [2.0], [4.0]]
