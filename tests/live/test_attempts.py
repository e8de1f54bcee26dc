"""An op that finds no memory is run again as if for the first time: with the same random numbers, in the same way."""

from typing import Any

import pytest

from tests.conftest import Runner

NOISY = """
import contextlib
import torch
import coopsim.live
from coopsim.live import step as steps
steps._SPILLS.add("cpu")
torch.set_num_threads(1)
SHORT, own = {}, torch.Generator()
lib = torch.library.Library("mine", "DEF")
def noisy(x, layer, generator):
    seed = int(torch.randint(1 << 40, (), generator=generator))  # drawn before ...
    if SHORT.get(layer):  # ... what is made finds no room
        SHORT[layer] -= 1
        raise torch.OutOfMemoryError("out of memory")
    return x + torch.rand(x.shape, generator=torch.Generator().manual_seed(seed))
def changing(x, layer):
    x.add_(torch.rand(()))
    if SHORT.get(layer):
        SHORT[layer] -= 1
        raise torch.OutOfMemoryError("out of memory")
lib.define("noisy(Tensor x, int layer, Generator? generator) -> Tensor")  # and does not say that it draws
lib.impl("noisy", noisy, "CPU")
lib.define("changing(Tensor(a!) x, int layer) -> ()")
lib.impl("changing", changing, "CPU")
class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        y = torch.ops.mine.noisy(x, layer, own if layer % 2 else None)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None
def run(memory, short):
    torch.manual_seed(0), own.manual_seed(1)
    net = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(6))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    budget, losses = coopsim.live.Budget(memory, device="cpu") if memory else None, []
    for i in range(5):
        SHORT.clear()
        if i in (0, 3):
            SHORT.update(short)
        with budget.step() if budget else contextlib.nullcontext():
            h = torch.randn(1024, 64)
            for layer, linear in enumerate(net):
                h = torch.tanh(Noisy.apply(linear(h), layer))
            loss = h.square().mean(); loss.backward(); opt.step(); opt.zero_grad(); losses.append(loss.item())
    bits = [p.detach().numpy().tobytes().hex() for p in net.parameters()]
    return [losses, bits, torch.get_rng_state().sum().item()], budget and budget.report()
plain, _ = run(None, {})
found, report = run("60%", {2: 1, 3: 1})
answer([plain == found, SHORT, report])
"""


def noisy(child: Runner, plant: str = "", **variables: str) -> tuple[bool, dict[str, int], dict[str, Any]]:
    found: tuple[bool, dict[str, int], dict[str, Any]] = child(
        NOISY.replace("plain, _ =", f"{plant}\nplain, _ ="), **variables
    )
    return found


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_an_op_that_is_tried_again_draws_the_same_numbers(child: Runner, compiler: dict[str, str]) -> None:
    """While it is recorded and by plan, from the default generator and one of its own, and when it is run again."""
    same, _, report = noisy(child, **compiler)
    assert same
    assert report["recomputes"] > 0
    assert report["planned_steps"] >= 3


@pytest.mark.parametrize("plant", [
    "from coopsim.live.operands import Drawn; Drawn.restore = lambda self: None",
    "import coopsim.live.observed as table; table.draws = lambda func: 0",
])  # fmt: skip
def test_generators_that_are_not_set_back_show(child: Runner, plant: str) -> None:
    assert not noisy(child, plant)[0]


CAUGHT = """
import torch
import coopsim.live
lib = torch.library.Library("mine", "DEF")
PATHS, MB = [], 1 << 20
def space(x, layer):
    try:
        torch.empty((layer + 1) * 6 * MB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        PATHS.append("slow")  # as PyTorch's convolutions do, which then give other bits
        if layer == 5: raise ValueError("no way without it")
        return x * 1
    PATHS.append("fast")
    return x * 1
lib.define("space(Tensor x, int layer) -> Tensor")
lib.impl("space", space, "CUDA")
class Space(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        y = torch.ops.mine.space(x, layer)
        ctx.save_for_backward(y)
        ways.append(PATHS[-1])
        return y
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None
net = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(8)).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
x = torch.zeros(4096, 256, device="cuda")
budget, ways = coopsim.live.Budget("140MiB"), []
for i in range(8):
    if i == 5:  # as a growing cache of the program's
        kept = torch.empty(6 * MB, dtype=torch.uint8, device="cuda")
    with budget.step():
        h = x
        for layer, linear in enumerate(net):
            h = torch.nn.functional.gelu(Space.apply(linear(h), layer))
        h.mean().backward(); opt.step(); opt.zero_grad()
answer([PATHS.count("slow"), ways.count("slow"), budget.report()])
"""


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_an_op_that_catches_that_there_is_no_memory_is_run_again(child: Runner, compiler: dict[str, str]) -> None:
    caught, taken, report = child(CAUGHT, **compiler)
    assert caught > 0
    assert taken == 0
    assert report["planned_steps"] >= 2


def test_errors_that_are_not_counted_show(child: Runner) -> None:
    plant = "from coopsim.live import device\ndevice.Ooms._ran_out = lambda *_: None\n"
    caught, taken, _ = child(plant + CAUGHT.replace("if layer == 5: raise", "if False: raise"))
    assert 0 < taken <= caught


WORKSPACE = """
import torch
import coopsim.live
MB = 1 << 20
def inside(memory):
    layers = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(256, 256), torch.nn.ELU()))).cuda()
    opt = torch.optim.SGD(layers.parameters(), 0.1)
    x, budget = torch.zeros(8192, 256, device="cuda"), coopsim.live.Budget(memory)
    for _ in range(2):
        with budget.step():
            torch.nn.functional.binary_cross_entropy_with_logits(layers(x), x).backward()
            opt.step(); opt.zero_grad()
    trace = budget.session.known.last.trace
    return [sum(row) // MB for row, name in zip(trace.temporaries.rows(), trace.name) if "cross_entropy" in name], \\
        budget.report()["offloads"]
answer([inside("1GiB"), inside("120MiB")])
"""


def test_what_an_op_takes_inside_is_that_of_the_try_that_succeeded(child: Runner) -> None:
    """And not less for what was sent to the host between its tries: plans would leave too little room for it."""
    (plain, _), (tight, sent) = child(WORKSPACE)
    assert sent > 0
    assert tight == plain
    assert plain[0] > 8


IN_PLACE = """
import torch
from coopsim.live.errors import LiveError
from tests.live.made_up import parts, Cap
step = parts(1 << 20, Cap(1))
a = torch.ones(4)
def execute():
    torch.ops.aten.add_.Tensor(a, 1)
    step.context.values.room.ooms.value += 1
try:
    step.context.values.attempt(torch.ops.aten.add_.Tensor, execute, ())
    answer("")
except LiveError as error:
    answer(str(error))
"""


def test_an_op_that_has_changed_its_operands_is_refused(child: Runner) -> None:
    assert "cannot be run again" in child(IN_PLACE)


def test_an_op_of_ones_own_that_changes_its_operands_is_not_tried_twice(child: Runner) -> None:
    text = NOISY[: NOISY.index("class Noisy")].replace('steps._SPILLS.add("cpu")', "")
    found = child(
        text
        + """
from tests.live.made_up import parts, Cap
SHORT[0] = 1
step, x = parts(1 << 20, Cap(9)), torch.zeros(4)
try: step.run(torch.ops.mine.changing.default, x, 0)
except torch.OutOfMemoryError: answer(x.unique().numel())
answer("tried again")
"""
    )
    assert found == 1


def test_any_error_of_memory_is_one_line(child: Runner) -> None:
    text = NOISY[: NOISY.index("class Noisy")].replace('steps._SPILLS.add("cpu")', "")
    says = """
SHORT[0] = 99
budget = coopsim.live.Budget("1MiB", device="cpu")
with budget.step():
    try: torch.ops.mine.noisy(torch.zeros(4), 0, None)
    except torch.OutOfMemoryError: answer(str(budget.session.failure))
"""
    assert child(text + says) == "mine.noisy.default: out of memory, and nothing more can go to the host"


CONVOLUTIONS = """
import gc, torch, coopsim.live
from torch import nn
def peak(memory=None):
    gc.collect()
    torch.cuda.empty_cache()
    net = nn.Sequential(*(m for _ in range(8) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()))).cuda()
    opt, x = torch.optim.SGD(net.parameters(), 0.1), torch.zeros(32, 64, 64, 64, device="cuda")
    budget = coopsim.live.Budget(memory) if memory else None
    torch.cuda.reset_peak_memory_stats()
    for _ in range(5):
        if budget: budget.session.begin()
        net(x).mean().backward(); opt.step(); opt.zero_grad()
        if budget: budget.session.end()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), budget and budget.report()
before, reserved, _ = peak()
report = peak(f"{reserved * 7 // 10}B")[2]
ooms = torch.cuda.memory_stats()["num_ooms"]
answer([before, peak()[0], ooms, report])
"""


def test_convolutions_keep_the_algorithm_that_they_take_without_a_budget(on_phantom: Runner) -> None:
    """PyTorch keeps for good what it takes where memory lacks; its workspace tells which it is."""
    before, after, ooms, report = on_phantom(CONVOLUTIONS, card="h100-80gb", COOPSIM_PHANTOM_WORKSPACES="1")
    assert ooms > 0
    assert after == before
    assert report["planned_steps"] >= 2
    assert report["peak_reserved_bytes"] <= 1.02 * report["budget_bytes"]
