"""Scripts, whose steps follow each other at once: what is on the host when a step ends may stay there."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from coopsim import phantom
from coopsim.live import schedules
from coopsim.live.host.hosting import Hosting
from coopsim.live.plan import ON_HOST
from coopsim.trace.build import TraceBuilder
from coopsim.types import MIB, Action, Phase, Role
from tests.conftest import ROOT, Runner
from tests.live.command import live

CALL = """
from coopsim.link import Link
from coopsim.options import ReplayOptions
from tests.live.between import between
from tests.live.compare import FastHost

class Slow(FastHost):
    @property
    def options(self):
        return ReplayOptions(steps=1, link=Link("slow", 1, 1, 0))
"""


def trained(child: Runner, host: str, optimizer: str, memory: str = "1800KiB", **how: Any) -> dict[str, Any]:
    """Parameters and gradients are 1.6 MiB, and Adam's state as much: a process for each, as all of it is counted."""
    variables = {"CXX": "/nowhere/c++"} if how.pop("python", False) else {}
    call = f"{host}(state=True, between=True), **{how!r}"
    found: dict[str, Any] = child(f"{CALL}\nanswer(between({optimizer!r}, {memory!r}, {call}))", **variables)
    assert found["same"]
    assert found["peak_allocated_bytes"] <= found["budget_bytes"]
    return found


@pytest.mark.parametrize("optimizer", [
    "foreach", *(pytest.param(name, marks=pytest.mark.slow) for name in ("loop", "fused", "momentum")),
])  # fmt: skip
@pytest.mark.parametrize("python", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_planned_steps_leave_the_state_on_the_host(child: Runner, optimizer: str, python: bool) -> None:
    """One step leaves its plan, and looks at the state. All is back at the end."""
    found = trained(child, "FastHost", optimizer, python=python)
    assert found["away"] >= 25
    assert found["left"] > 700 << 10
    assert (found["planned_steps"], found["deviations"], found["now"]) == (3, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("over", [False, True])
def test_steps_without_a_plan_leave_what_they_sent(child: Runner, over: bool) -> None:
    """Over a link on which no plan is worth it."""
    found = trained(child, "Slow", "loop", over=over)
    assert (found["away"], found["planned_steps"], found["now"]) == (0, 0, 0)
    assert found["unplanned"]
    assert found["left"] > 700 << 10


@pytest.mark.slow
def test_a_planted_fault_shows(child: Runner) -> None:
    """Two values on the host change places between two planned steps."""
    fault = """
from coopsim.live.residency import Residency
keep = Residency.keep
def swapped(self, storages):
    keep(self, storages)
    copies = self._on_host._copies
    one, other = [tracked for tracked in copies if tracked.nbytes == 64 << 10][:2]
    copies[one], copies[other] = copies[other], copies[one]
Residency.keep = swapped
"""
    call = 'answer(between("loop", "1800KiB", FastHost(state=True, between=True))["same"])'
    assert not child(CALL + fault + call)


SCRIPT = str(ROOT / "tests/live/scripts/state.py")
FLAGS = ("--memory", "1900KiB", "--offload", "--offload-state", "--link", "pcie4-x16")


@pytest.mark.slow
@pytest.mark.usefixtures("child")
@pytest.mark.parametrize("fails", [False, True])
def test_a_script_saves_the_same_bytes(fails: bool) -> None:
    """Of a state that is on the host when the last step ends; parameters and gradients are 1548 KiB, and so is it."""
    words = ["--fails"] if fails else []
    environment = os.environ | phantom.environment("a100-80gb")
    plain = subprocess.run([sys.executable, SCRIPT, *words], env=environment, capture_output=True, text=True)
    done = live(*FLAGS, "--json", "--", "python", SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["steps"], found["deviations"]) == (6, 0)
    assert found["planned_steps"] >= 2
    assert found["offloads"] > 0
    assert done.stderr.splitlines()[:7] == plain.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("child")
def test_it_is_saved_from_a_gpu_storage_by_storage() -> None:
    """Within the budget, by which the state is not there as a whole."""
    words = ["--offload", "--offload-state", "--json", "--", "python", SCRIPT, "--device", "cuda"]
    done = live("--gpu", "rtx-3060", "--memory", "24MiB", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["peak_reserved_bytes"] <= found["budget_bytes"]


@pytest.mark.usefixtures("child")
@pytest.mark.slow
def test_a_script_with_a_budget_of_its_own_needs_room_for_all() -> None:
    """What it does between steps is its own business."""
    done = live(*FLAGS, "--", "python", SCRIPT, "--own")
    assert done.returncode == 3, done.stderr
    assert "the end of a step takes 2.2" in done.stderr


def update(layers: int = 8) -> Any:
    """Gradients are made one after the other, and each moment and weight is changed by an op of its own."""
    build = TraceBuilder()
    there = {"alive_at_start": True}
    weights = [build.storage(8 * MIB, Role.PARAMETER, **there) for _ in range(layers)]
    moments = [build.storage(8 * MIB, Role.OPTIMIZER_STATE, **there) for _ in range(layers)]
    grads = [build.storage(8 * MIB, Role.GRADIENT) for _ in range(layers)]
    for weight, grad in zip(weights, grads, strict=True):
        build.op("aten.mm.default", reads=[weight], creates=[grad], cost_ns=10_000_000)
    for weight, grad, moment in zip(weights, grads, moments, strict=True):
        options = {"cost_ns": 1_000_000, "phase": Phase.OPTIMIZER}
        build.op("aten.lerp_.Scalar", reads=[grad], mutates=[moment], **options)
        build.op("aten.addcdiv_.default", reads=[grad, moment], mutates=[weight], **options)
    build.op("coopsim.hold", reads=[], cost_ns=0, phase=Phase.OPTIMIZER)
    for grad in grads:
        build.free(grad)
    return build.build({"model": "update", "cost_source": "synthetic"})


def test_a_plan_begins_and_ends_with_the_state_on_the_host() -> None:
    """Weights and gradients are 128 MiB, the state is 64 MiB more. Copies begin before they are waited for."""
    trace, budget = update(), 160 * MIB
    apart = Hosting(link="pcie4-x16", state=True)
    assert schedules.explain(schedules.find(trace, "foresight-offline", 130 * MIB, apart))
    schedule = schedules.find(trace, "foresight-offline", budget, Hosting("pcie4-x16", None, state=True, between=True))
    assert not schedules.explain(schedule)
    assert schedule.header["peak_bytes"] <= budget
    assert schedule.header["trace"] == trace.content_hash
    assert schedule.header[ON_HOST] == list(range(8, 16))
    actions = [(row[0], row[3], row[4], row[2]) for row in schedule.rows()]
    fetched = {s: op for action, s, v, op in actions if action == Action.FETCH and (s, v) != (0, 1)}
    assert set(fetched) >= set(range(8, 16))
    assert not any(action == Action.ALLOC and op < 0 and s in range(8, 16) for action, s, _, op in actions)
    assert any(fetched[8 + k] < 8 + 2 * k for k in range(8))
    out = [s for action, s, v, _ in actions if action == Action.OFFLOAD and v == 1]
    assert set(out) >= set(range(8, 16))


def test_without_it_all_is_there_at_the_end() -> None:
    trace = update()
    roles = [Role.ACTIVATION if role == Role.GRADIENT else role for role in trace.role]
    trace = update().__class__(**{**vars(trace), "role": roles})
    found = [schedules.least(trace, state=True, between=between) for between in (False, True)]
    assert (found[0].op, found[0].nbytes) == ("the end of a step", 128 * MIB)
    assert found[1].nbytes == 24 * MIB


def test_a_plan_of_a_script_is_made_anew_where_steps_are_apart(child: Runner) -> None:
    """If that is possible: here all at the end of a step is 192 MiB, of which gradients are 64 MiB."""
    text = """
from coopsim.live import schedules
from coopsim.live.errors import DoesNotFit
from coopsim.live.host.hosting import Hosting
from coopsim.live.signatures import Signature
from coopsim.live.plan_state import Candidate, NoPlan
from coopsim.live.planning import Planning
from coopsim.trace.measure import peak_bytes
from tests.live.test_between import MIB, update
trace, hosting = update(), Hosting("pcie4-x16", None, state=True, between=True)
schedule = schedules.find(trace, "foresight-offline", 160 * MIB, hosting)
def away(budget, apart):
    planning = Planning("foresight-offline", budget, None)
    planning.offloading.allow(hosting, "", planning.policy)
    planning.run_on("cpu")
    if apart:
        planning.offloading.keep_steps_apart()
    kind = Signature(trace, [], 1, peak_bytes(trace, 1), state=NoPlan(candidate=Candidate(0, schedule)))
    try:
        planning.follow_known(kind)
    except DoesNotFit as error:
        return str(error)
    return len(kind.plan.on_host) if kind.plan else kind.state.why
answer([away(160 * MIB, False), away(160 * MIB, True), away(127 * MIB, True)])
"""
    kept, anew, refused = child(text)
    assert kept == 8
    assert anew != 8
    assert "whatever is evicted" in refused
