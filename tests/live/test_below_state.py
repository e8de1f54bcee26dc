"""Budgets below what parameters, the optimizer's state and one op need together: the state goes to the host."""

from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.link import Link
from coopsim.live import schedules
from coopsim.live.host.hosting import Hosting
from coopsim.options import ReplayOptions
from coopsim.trace.build import TraceBuilder
from coopsim.trace.synth import chain
from coopsim.types import MIB, Action, Phase, Role
from tests.conftest import Runner
from tests.live.plans import PLAN


class Slow(Hosting):
    """Of a link on which the copies of all that is over would not end in time."""

    @property
    def options(self) -> ReplayOptions:
        return ReplayOptions(steps=1, link=Link("slow", 60_000, 60_000, 0))


def test_a_plan_sends_the_state_first_and_recomputes_the_rest() -> None:
    trace = chain(32, 2 * MIB, MIB // 2)
    budget = schedules.least(trace).nbytes - MIB // 2
    assert schedules.explain(schedules.find(trace, "foresight-offline", budget, Slow()))
    schedule = schedules.find(trace, "foresight-offline", budget, Slow(state=True))
    assert not schedules.explain(schedule)
    assert schedule.header["peak_bytes"] <= budget
    assert schedule.header["recomputes"] > 0
    assert schedule.header["offloads"] > 0
    assert schedule.overhead is not None
    assert schedule.overhead < 1.3


def test_state_leaves_after_its_last_use_and_comes_back() -> None:
    """The update of all weights at once needs the square's room: that leaves while the weights change."""
    build = TraceBuilder()

    def all_of(role: Role, *, there: bool = True) -> list[int]:
        return [build.storage(8 * MIB, role, alive_at_start=there) for _ in range(4)]

    weights, square = all_of(Role.PARAMETER), all_of(Role.OPTIMIZER_STATE)
    grads = all_of(Role.ACTIVATION, there=False)
    for weight, grad in zip(weights, grads, strict=True):
        build.op("aten.mm.default", reads=[weight], creates=[grad], cost_ns=10_000_000)
    options = {"cost_ns": 1_000_000, "phase": Phase.OPTIMIZER}
    build.op("aten._foreach_addcmul_.Scalar", reads=grads, mutates=square, **options)
    roots = all_of(Role.ACTIVATION, there=False)
    build.op("aten._foreach_sqrt.default", reads=square, creates=roots, **options)
    for name in ("aten._foreach_div_.ScalarList", "aten._foreach_add_.Scalar"):
        build.op(name, reads=[], mutates=roots, **options)
    build.op("aten._foreach_addcdiv_.ScalarList", reads=[*grads, *roots], mutates=weights, **options)
    for storage in (*grads, *roots):
        build.free(storage)
    build.op("coopsim.hold", reads=[], cost_ns=0, phase=Phase.OPTIMIZER)
    trace = build.build({"model": "update", "cost_source": "synthetic"})
    assert schedules.explain(schedules.find(trace, "foresight-offline", 112 * MIB, Hosting(link="pcie4-x16")))
    schedule = schedules.find(trace, "foresight-offline", 112 * MIB, Hosting(link="pcie4-x16", state=True))
    assert not schedules.explain(schedule)
    assert schedule.header["trace"] == trace.content_hash
    away = {row[3] for row in schedule.rows() if row[0] == Action.OFFLOAD}
    back = {row[3] for row in schedule.rows() if row[0] == Action.FETCH}
    assert away == back
    assert away & set(square)


def test_the_bound_with_state_elsewhere() -> None:
    """What the most demanding op takes or, where that is more, what stays: here 64 MiB of weights."""
    trace = chain(32, MIB, 2 * MIB)
    plain, state = schedules.least(trace), schedules.least(trace, state=True)
    assert plain.nbytes - state.nbytes == 31 * 2 * MIB  # without those of the op
    assert plain.op == state.op
    roles = [Role.ACTIVATION if role == Role.GRADIENT else role for role in trace.role]
    found = schedules.least(replace(trace, role=roles), state=True)
    assert (found.op, found.nbytes, found.held) == ("the end of a step", 64 * MIB, {Role.PARAMETER: 64 * MIB})


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
        out = model(x + i)
        if i == 4:  # leaves its plan, by which the state is away
            out = out.neg()
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return [model, optimizer], step

PROGRAMS["words"] = words
found = []
for state in (True, False):
    try:
        found.append(compare("words", MEMORY, steps=9, offload=FastHost(state=state)))
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
    assert sent["planned_steps"] >= 2, sent
    assert sent["deviations"] == 1


@pytest.mark.slow
def test_no_step_is_recorded_by_a_plan_file(child: Runner, tmp_path: Path) -> None:
    """Where the first step has left the optimizer's state is known in the second, which sends it before it is used."""
    program = TEXT.partition("found = []")[0].replace("FOREACH", "True")
    path = repr(str(tmp_path / "plan"))
    early, ran = child(
        f"""{PLAN}{program}
made = planned("words", {path}, 0.8, FastHost(state=True))
early = [len(Plan(k.trace, k.schedule, k.op_log, everything=False).early) for k in plan_file.load({path}).signatures]
answer([early, made | compare("words", None, steps=4, plan={path})])
""".replace("from coopsim.live import LiveError", "from coopsim.live.plan import Plan")
    )
    assert early[-1] > 0, ran
    assert ran["same"]
    assert (ran["planned_steps"], ran["deviations"]) == (4, 0), ran


@pytest.mark.slow
def test_state_that_is_away_is_found_too(child: Runner) -> None:
    """A step that leaves its plan sends what it can, while some of the state is on the host by the plan."""
    text = """
import torch
from coopsim.live import emptied
from coopsim.live.host import sender
from coopsim.observe import effects
weight = torch.nn.Parameter(torch.ones(4, 256, device="cuda"))
optimizer = torch.optim.Adam([weight])
weight.sum().backward()
optimizer.step()
storage = optimizer.state[weight]["exp_avg"].untyped_storage()
memory = storage.clone()
emptied.empty(storage)
with effects.on("cuda"):
    found = [tensor.numel() for tensor in sender._largest_state()]
emptied.fill(storage, memory)
answer(found)
"""
    assert child(text, CXX="/nowhere/c++") == [1024, 1024]  # without compiled code, which reads no address either
