"""Plans that offload: what is hidden is free, what cannot be is made again, and none is worse than without."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, Role
from coopsim.cards.link import Link
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.make import make as plan_for
from coopsim.simulate.planning.request import IterationStart, PlanRequest, ResidencyPlan
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make
from tests.proof_traces import load_of_the_proof
from tests.strategies import repeating

PLAIN, BOTH = "foresight-offline", "foresight-offline:lose=either"
FAST = Link("fast", 1_000_000, 700_000, 10)


def chain() -> tuple[Trace, int]:
    """A step of 32 layers forward and back, and 40 % of its peak."""
    trace = make("synth:chain:32")
    return trace, int(0.4 * peak_bytes(trace, 512))


def test_copies_that_are_hidden_cost_nothing() -> None:
    """Each op takes longer than a copy of what it makes: all that leaves goes to the host, and no op waits for it."""
    trace, budget = chain()
    without = replay(trace, PLAIN, budget, steps=2)
    schedule = replay(trace, BOTH, budget, steps=2, link=FAST)
    h = schedule.header
    assert without.overhead is not None
    assert without.overhead > 1.1
    assert (schedule.overhead, h["recomputes"], h["stall_ns"], h["planned_steps"]) == (1.0, 0, 0, 2)
    assert h["fetches"] > 10
    assert h["host_peak_bytes"] <= peak_bytes(trace, 512)
    assert validate(schedule, trace) == []


def test_a_link_that_is_too_slow_is_left_alone() -> None:
    trace, budget = chain()
    without = replay(trace, PLAIN, budget, steps=2)
    schedule = replay(trace, BOTH, budget, steps=2, link=Link("slow", 1, 1, 10))
    assert schedule.header["offloads"] == 0
    assert schedule.rows() == without.rows()


def test_a_plan_keeps_to_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three values there are never more on the host; with room for none nothing is offloaded.

    All copies that are planned are made.
    """
    trace, budget = chain()
    largest = int(trace.bytes.max())
    costs = []
    plans: list[ResidencyPlan | None] = []

    def noted(request: PlanRequest, start: IterationStart) -> ResidencyPlan | None:
        plans.append(plan_for(request, start))
        return plans[-1]

    monkeypatch.setattr("coopsim.simulate.replay.planned_run.make", noted)
    for room in (0, 3 * largest, 1 << 40):
        plans.clear()
        schedule = replay(trace, BOTH, budget, steps=2, link=FAST, host_memory=room)
        assert schedule.header["host_peak_bytes"] <= room
        assert schedule.header["planned_steps"] == 2
        assert validate(schedule, trace) == []
        costs.append(schedule.header["total_cost_ns"])
        first = schedule.action[schedule.step == 0]
        assert plans[0] is not None
        for planned, made in ((s.OUT, Action.OFFLOAD), (s.BACK, Action.FETCH)):
            assert (plans[0].away[:, s.A_WHAT] == planned).sum() == (first == made).sum()
    assert costs[0] > costs[1] > costs[2]


def test_parameters_go_only_where_nothing_else_fits() -> None:
    """With `offload_state` a plan that fits without moving parameters is the same."""
    trace, budget = chain()
    one, other = (replay(trace, p, budget, steps=2, link=FAST) for p in (BOTH, f"{BOTH},offload_state=yes"))
    assert one.rows() == other.rows()
    assert (one.action == Action.OFFLOAD).any()


def test_none_is_worse_than_without() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(repeating(), st.floats(0.4, 0.95), st.sampled_from([50_000, 300_000, 1_000_000]), st.integers(0, 10))
    def compare(trace: Trace, ratio: float, rate: int, of: int) -> None:
        budget = int(ratio * peak_bytes(trace, 512))
        recomputed = replay(trace, PLAIN, budget, steps=2)
        without = recomputed.overhead if recomputed.header["planned_steps"] == 2 else None  # a search may cost less
        overhead = replay(trace, BOTH, budget, steps=2, link=Link("any", rate, rate * of // 10, 1)).overhead
        assert recomputed.overhead is None or overhead is not None
        assert without is None or (overhead is not None and overhead <= without)
        seen["better"] += without is not None and overhead is not None and overhead < without
        seen["fits"] += overhead is not None

    compare()
    assert seen["better"] > 0.25 * seen["fits"]


def test_ops_wait_for_a_copy_out_where_nothing_else_fits() -> None:
    """State that is used right before and right after an op beside which it has no room; a copy takes 5130 ns.

    It goes and comes back, and ops wait for all of that. In the second step the host has a copy.
    """
    t = TraceBuilder()
    state, wide = t.storage(5120, Role.OPTIMIZER_STATE, alive_at_start=True), t.storage(10240)
    t.op("before", reads=[state], cost_ns=100)
    t.op("wide", creates=[wide], cost_ns=1000)
    t.free(wide)
    t.op("after", reads=[state], cost_ns=100)
    trace = t.build({})
    schedule = replay(trace, f"{BOTH},offload_state=yes", 12800, steps=2, link=Link("small", 1000, 700, 10))
    h = schedule.header
    assert (h["planned_steps"], h["stall_ns"], h["total_cost_ns"]) == (2, 3 * 5130, 2 * 1200 + 3 * 5130)
    assert validate(schedule, trace) == []


def test_a_copy_back_goes_before_others_if_it_has_to() -> None:
    """A tree of 23 ops at 80 %: three copies back that are in time only one behind the other. Nothing runs again."""
    trace = make("synth:tree:3")
    peak = peak_bytes(trace)
    rate = round(peak * 1000 / int(trace.cost_ns.sum()) / 2)
    schedule = replay(trace, BOTH, int(0.8 * peak), steps=2, link=Link("small", rate, rate * 7 // 10, 0))
    assert (schedule.overhead, schedule.header["planned_steps"]) == (1.0, 2)
    assert validate(schedule, trace) == []


def test_engines_that_are_full_go_to_what_pays_most() -> None:
    """ResNet-50 in 30 %: values on the host are chosen together with what is made again, near the lower bound.

    Chosen after it, they would save less than two of three points (16.9 % against 18.2 without, the bound is 14.2).
    """
    trace = load_of_the_proof("resnet-50")
    schedule = replay(trace, BOTH, "30%", steps=1, link=Link("pcie4", 25_100, 17_570))
    assert schedule.overhead is not None
    assert 1.142 < schedule.overhead < 1.15
    assert schedule.header["planned_steps"] == 1
