"""Plans: what the dry run has is what happens, addresses included; and a plan that does not hold is given up."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, InPlace, Phase, Pinning
from coopsim.simulate import policies
from coopsim.simulate.kernel import state as s
from coopsim.simulate.metrics import summary
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.planning.make import make
from coopsim.simulate.planning.program import Program
from coopsim.simulate.planning.request import IterationStart, PlanRequest, ResidencyPlan
from coopsim.simulate.policies.foresight import POLICY as FORESIGHT
from coopsim.simulate.replay import replay
from coopsim.simulate.replay.plan import leave_plan
from coopsim.simulate.replay.planned_run import PlannedRun
from coopsim.study.validate import validate
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make as synth
from tests.conftest import ROOT
from tests.proof_traces import load_of_the_proof
from tests.strategies import in_a_row, repeatable, traces

GRANULE = 512


def program_of(trace: Trace, in_place: InPlace = InPlace.RECOMPUTABLE) -> Program:
    return lower(trace, in_place=in_place, pinning=Pinning.SOUND, granule=GRANULE)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces(), ratio=st.floats(0.4, 1.0), in_place=st.sampled_from(list(InPlace)))
def test_steps_go_as_in_the_dry_run(trace: Trace, ratio: float, in_place: InPlace) -> None:
    """The judge passes every schedule. Steps that went by plan are all alike and search for nothing."""
    assume(trace.n_steps == 1 and set(np.flatnonzero(trace.alive_at_start)) <= set(trace.becomes[trace.becomes >= 0]))
    budget = int(ratio * peak_bytes(trace, GRANULE))
    assume(budget >= GRANULE)
    schedule = replay(trace, policies.find(f"foresight:in_place={in_place}"), budget, steps=4)
    assert validate(schedule, trace) == []
    planned = schedule.header["planned_steps"]
    assert 0 <= planned <= 3
    if planned == 3:
        assert not schedule.visits[schedule.step > 0].any()


@pytest.mark.parametrize("name", ["synth:chain:24", "synth:tree:4", "synth:unet:4", "synth:holes:12"])
@pytest.mark.parametrize("ratio", [0.9, 0.75, 0.6])
def test_a_planned_step_costs_what_the_dry_run_does(name: str, ratio: float) -> None:
    trace = synth(name)
    budget = int(ratio * peak_bytes(trace, GRANULE)) // GRANULE * GRANULE
    short, long = (replay(trace, "foresight", budget, steps=k) for k in (2, 3))
    thrift = replay(trace, "thrift", budget, steps=1)
    assert (short.header["planned_steps"], long.header["planned_steps"]) == (1, 2)
    one_step = long.header["total_cost_ns"] - short.header["total_cost_ns"]
    assert short.header["total_cost_ns"] == thrift.header["total_cost_ns"] + one_step
    again = (long.action == Action.RECOMPUTE) & (long.step == 2)
    plan = make(PlanRequest(trace, FORESIGHT, budget), IterationStart(_addresses(trace, budget)))
    assert plan is not None
    assert one_step == trace.cost_ns.sum() + plan.cost == trace.cost_ns.sum() + trace.cost_ns[long.op[again]].sum()
    assert plan.peak <= plan.height <= budget
    assert len(plan.requests) == int(((long.action == Action.ALLOC) & (long.step == 2)).sum())


@pytest.mark.parametrize("name", ["synth:chain:24", "synth:tree:4", "synth:unet:4", "resnet-50"])
def test_offline_all_steps_are_one_plan(name: str) -> None:
    """From the first on, each costs what Foresight's planned ones do; nothing is searched for."""
    trace = synth(name) if ":" in name else load(ROOT / "traces" / f"{name}.parquet")
    budget = int(0.7 * peak_bytes(trace, GRANULE)) // GRANULE * GRANULE
    schedule = replay(trace, "foresight-offline", budget, steps=3)
    short, long = (replay(trace, "foresight", budget, steps=k) for k in (2, 3))
    assert validate(schedule, trace) == []
    assert (schedule.header["planned_steps"], schedule.header["searches"]) == (3, 0)
    assert schedule.header["total_cost_ns"] == 3 * (long.header["total_cost_ns"] - short.header["total_cost_ns"])
    first, second = ((schedule.step == k) & (schedule.action == Action.ALLOC) & (schedule.op >= 0) for k in (0, 1))
    assert schedule.address[first].tolist() == schedule.address[second].tolist()
    assert short.header["searches"] > 0


def test_foresight_is_thrift_where_steps_differ() -> None:
    trace = load(ROOT / "traces" / "spos.parquet")
    budget = int(0.6 * peak_bytes(trace, GRANULE))
    thrift, schedule = (replay(trace, p, budget, steps=5) for p in ("thrift", "foresight"))
    assert schedule.header["planned_steps"] == 0
    assert [row[:8] for row in schedule.rows()] == [row[:8] for row in thrift.rows()]


def test_offline_steps_that_differ_are_one_plan() -> None:
    """Each iteration costs what the dry run of its five steps does, at most two thirds of what it does under Thrift."""
    trace = load(ROOT / "traces" / "moe.parquet")
    budget = int(0.8 * peak_bytes(trace, GRANULE)) // GRANULE * GRANULE
    schedule = replay(trace, "foresight-offline", budget, steps=10)
    assert validate(schedule, trace) == []
    assert (schedule.header["planned_steps"], schedule.header["searches"]) == (10, 0)
    plan = make(PlanRequest(trace, FORESIGHT, budget), IterationStart(_addresses(trace, budget)))
    assert plan is not None
    assert schedule.header["total_cost_ns"] == 2 * (int(trace.cost_ns.sum()) + plan.cost)
    thrift = replay(trace, "thrift", budget, steps=10)
    assert 3 * schedule.header["recompute_cost_ns"] < 2 * thrift.header["recompute_cost_ns"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces(), ratio=st.floats(0.4, 1.0), in_place=st.sampled_from(list(InPlace)))
def test_what_is_used_beyond_its_step_is_planned_too(trace: Trace, ratio: float, in_place: InPlace) -> None:
    """The judge passes every schedule. If all steps went by plan, nothing is searched for."""
    assume(trace.n_steps > 1)
    budget = int(ratio * peak_bytes(trace, GRANULE))
    assume(budget >= GRANULE)
    steps = 2 * trace.n_steps if repeatable(trace) else trace.n_steps
    schedule = replay(trace, policies.find(f"foresight-offline:in_place={in_place}"), budget, steps=steps)
    assert validate(schedule, trace) == []
    if schedule.header["planned_steps"] == steps:
        assert schedule.header["searches"] == 0


def test_a_start_that_does_not_fit_is_out_of_memory() -> None:
    """As under Foresight, which does not plan its first step."""
    trace = load(ROOT / "traces" / "resnet-50.parquet")
    schedules = [replay(trace, p, 100 << 20, steps=2) for p in ("foresight", "foresight-offline")]
    assert [one.header["outcome"] for one in schedules] == ["oom", "oom"]
    assert schedules[0].rows() == schedules[1].rows()


def _addresses(trace: Trace, budget: int) -> np.ndarray:
    """Where Thrift puts what is there at the start: at the top, one after the other."""
    sizes = program_of(trace).values[program_of(trace).initial, s.BYTES]
    return budget - np.cumsum(sizes)


@pytest.mark.parametrize("spoil", ["value", "address", "short"])
def test_a_surprise_ends_the_plan(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is finished as Thrift would, and the judge is content."""
    trace = synth("synth:unet:4")
    budget = int(0.6 * peak_bytes(trace, GRANULE))

    def spoiled(request: PlanRequest, start: IterationStart) -> ResidencyPlan | None:
        plan = make(request, start)
        assert plan
        requests = plan.requests.copy()
        middle = len(requests) // 2
        if spoil == "value":
            requests[middle, 0] += 1
        elif spoil == "address":
            requests[middle, 1] = 1 << 50
        else:
            requests = requests[:middle]
        return replace(plan, requests=requests)

    monkeypatch.setattr("coopsim.simulate.replay.planned_run.make", spoiled)
    schedule = replay(trace, "foresight", budget, steps=3)
    assert schedule.header["planned_steps"] == 0
    assert schedule.header["outcome"] == "ok"
    assert validate(schedule, trace) == []


def test_a_surprise_ends_the_plan_until_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second step of three: of two iterations the first steps go by plan, and no others."""
    trace = in_a_row([synth("synth:unet:4"), synth("synth:unet:5"), synth("synth:unet:4")])
    budget = int(0.6 * peak_bytes(trace, GRANULE))

    def spoiled(request: PlanRequest, start: IterationStart) -> ResidencyPlan | None:
        plan = make(request, start)
        assert plan
        return replace(plan, requests=plan.requests[: len(plan.requests) // 2])

    monkeypatch.setattr("coopsim.simulate.replay.planned_run.make", spoiled)
    schedule = replay(trace, "foresight-offline", budget, steps=6)
    assert schedule.header["planned_steps"] == 2
    assert schedule.header["outcome"] == "ok"
    assert validate(schedule, trace) == []
    searched = schedule.step[schedule.visits > 0]
    assert set(searched.tolist()) <= {1, 2, 4, 5}


def test_a_first_step_that_does_not_fit_begins_anew_as_coop() -> None:
    """Its rows are Coop's; what the first try had cost is told, and counts."""
    trace = load_of_the_proof("resnet-50")
    budget = int(0.28 * peak_bytes(trace, GRANULE))
    thrift, coop, schedule = (replay(trace, p, budget, steps=3) for p in ("thrift", "coop", "foresight"))
    assert (thrift.header["outcome"], coop.header["outcome"], schedule.header["outcome"]) == ("oom", "ok", "ok")
    assert validate(schedule, trace) == []
    n = int((schedule.step == 0).sum())
    assert schedule.address[:n].tolist() == coop.address[:n].tolist()
    assert schedule.header["planned_steps"] == 2
    assert schedule.header["lost_cost_ns"] == thrift.header["total_cost_ns"] > 0
    costs = schedule.header["total_cost_ns"] + thrift.header["total_cost_ns"]
    assert summary(schedule)["overhead"] == costs / (3 * trace.cost_ns.sum())


def test_a_later_step_that_does_not_fit_begins_anew() -> None:
    """The steps before it are as they were; what it had cost is told. Thrift runs out of memory there."""
    trace = load_of_the_proof("moe")
    budget = int(0.49 * peak_bytes(trace, GRANULE))
    thrift, schedule = (replay(trace, p, budget, steps=5) for p in ("thrift", "foresight"))
    assert thrift.header["outcome"] == "oom"
    assert thrift.header["failure"]["step"] == 3
    assert schedule.header["outcome"] == "ok"
    assert validate(schedule, trace) == []
    n = int((schedule.step < 3).sum())
    assert [row[:8] for row in schedule.rows()[:n]] == [row[:8] for row in thrift.rows()[:n]]
    before = int(schedule.time_ns[schedule.step < 3][-1])
    assert schedule.header["lost_cost_ns"] >= thrift.header["total_cost_ns"] - before > 0


def test_no_step_begins_anew_once_parameters_are_updated() -> None:
    trace = load_of_the_proof("resnet-50")
    budget = int(0.28 * peak_bytes(trace, GRANULE))
    update = str(Phase.OPTIMIZER)
    for phase in ([update, *trace.phase[1:]], [trace.phase[0], *[update] * (trace.n_ops - 1)]):
        updating = replace(trace, phase=phase)
        schedule = replay(updating, "foresight", budget, steps=3)
        assert (schedule.header["outcome"], schedule.header["lost_cost_ns"]) == ("oom", 0)


def test_a_followed_plan_keeps_no_list_of_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, an op costs the same; once no plan is followed, they are listed."""
    states = []

    class Noted(PlannedRun):
        def run(self, state: s.State, *arguments: Any) -> None:
            states.append(state)
            super().run(state, *arguments)

    monkeypatch.setattr("coopsim.simulate.replay.once.PlannedRun", Noted)
    trace = synth("synth:unet:4")
    replay(trace, "foresight-offline", int(0.6 * peak_bytes(trace, GRANULE)), steps=1)
    (state,) = states
    assert state.K[s.K_HOLES] == 0
    leave_plan(state)
    blocks, block = [], int(state.K[s.K_HEAD])
    while block >= 0:
        blocks.append(state.P[block].tolist())
        block = int(state.P[block, s.NEXT])
    holes = sorted((row[s.LENGTH], row[s.ADDRESS]) for row in blocks if row[s.VALUE] < 0)
    assert holes
    assert state.H[:2, : state.K[s.K_HOLES]].T.tolist() == [list(hole) for hole in holes]
