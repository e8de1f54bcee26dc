"""What planned steps take by the phantom's clock is what was predicted: each op its cost in the trace, and no more."""

import pytest

from experiments.live.by_clock import FREE
from tests.conftest import Runner

LAUNCH_NS = 3_000  #: a kernel that moves next to nothing
HOST_NS = 10_000  #: what the host takes for an op
#: The time of a program's sixth step in a budget, and what was run again or copied in it.
CALL = """
import torch
from torch import nn
from coopsim.live.budget import Budget
from coopsim.live.values import Values
from experiments.live.by_clock import timed

def took(memory, build):
    run, copy, ran = Values.run, Values.copy, []
    def running(self, call, *rest):
        ran.append(str(call.func))
        run(self, call, *rest)
    def copying(self, storage, *rest):
        ran.append("copy")
        return copy(self, storage, *rest)
    Values.run, Values.copy = running, copying
    with timed() as clock:
        budget, step = Budget(memory), build()
        for _ in range(6):
            ran.clear()
            begun = clock.now()
            with budget.step():
                step()
            last = clock.now() - begun
    Values.run, Values.copy = run, copy
    assert budget.report()["planned_steps"] >= 3, budget.report()
    cost = int(budget.session.known.signatures[-1].trace.cost_ns.sum())
    return {"ns": last, "cost_ns": cost, "ran": ran, "overhead": budget.session.time().gpu_overhead}
"""
CONVOLUTIONS = """
def build():
    one = lambda: (nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    model = nn.Sequential(*(layer for _ in range(8) for layer in one())).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.zeros(512, 16, 64, 64, device="cuda")
    def step():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step
"""
#: Kernels so short that the host takes longer; a view of every value.
VIEWS = """
def build():
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8)).cuda()
    optimizer = torch.optim.SGD(layers.parameters(), 0.1)
    x = torch.zeros(4096, 64, device="cuda")
    def step():
        h = x
        for layer in layers:
            h = nn.functional.gelu(layer(h.view(64, 64, 64).transpose(0, 1))).reshape(4096, 64)
        loss = h.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    return step
"""


#: Attention and products, whose results are worth copying.
LAYERS = """
from coopsim.live import host as model
from experiments.live.by_clock import Host
def build():
    layers = nn.Sequential(*(nn.TransformerEncoderLayer(512, 8, batch_first=True) for _ in range(6))).cuda()
    optimizer = torch.optim.Adam(layers.parameters())
    x = torch.zeros(16, 512, 512, device="cuda")
    def step():
        layers(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step

def steps(memory, host, **options):
    with timed(host) as clock:
        budget, step, ends = Budget(memory, **options), build(), []
        for _ in range(10):
            with budget.step():
                step()
            ends.append((clock.end(), len(clock.copies)))
    latest = clock.copies[ends[-2][1]:]
    report = budget.report()
    return {"ns": ends[-1][0] - ends[-2][0], "copies": len(latest), "held": sum(one.held for one in latest),
            "late": sum(one.late for one in latest), "overhead": report["predicted_overhead"], "report": str(report)}

plain, followed = Host(model.PLAIN_NS, 0, 0), Host(model.PLAIN_NS + model.FOLLOWED_NS, model.AGAIN_NS, model.COPY_NS)
answer([steps("60GiB", plain), steps("60%", followed, offload=True)])
"""


@pytest.mark.slow
def test_copies_overlap_with_ops_and_the_host_as_predicted(on_phantom: Runner) -> None:
    """The host waits for none of them and issues them before the card is idle; the step takes what was predicted."""
    keeps, copies = on_phantom(f"{CALL}{LAYERS}", **FREE)
    assert copies["copies"] >= 10, copies["report"]
    assert (copies["held"], copies["late"]) == (0, 0)
    assert copies["ns"] / keeps["ns"] == pytest.approx(copies["overhead"], abs=0.02)


def test_ops_that_run_again_take_what_was_predicted(on_phantom: Runner) -> None:
    """And copies of statistics, which batch norm updates when it is run again, no more than they are large."""
    keeps, planned = on_phantom(f"{CALL}{CONVOLUTIONS}answer([took('60GiB', build), took('60%', build)])")
    assert not keeps["ran"]
    assert planned["ran"].count("copy") >= 2
    predicted = (planned["overhead"] - 1) * planned["cost_ns"]
    assert planned["ns"] - keeps["ns"] == pytest.approx(predicted + LAUNCH_NS * planned["ran"].count("copy"))


def test_views_take_no_time_whether_or_not_the_plan_watches_them(on_phantom: Runner) -> None:
    """The step takes as long as the host does, and longer by the ops that run again."""
    keeps, planned = on_phantom(f"{CALL}{VIEWS}answer([took('60GiB', build), took('85%', build)])")
    assert keeps["ns"] > 1.5 * keeps["cost_ns"]
    assert planned["ran"]
    assert planned["ns"] - keeps["ns"] == HOST_NS * len(planned["ran"])
