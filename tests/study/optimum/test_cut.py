"""The bound of the cut: small cases by hand, brute force, weak duality, and no replay below it."""

import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Role
from coopsim.simulate import policies
from coopsim.simulate.replay import replay
from coopsim.study.optimum import Problem, gap_in, highs, needs, problem_of, solve
from coopsim.study.optimum.moment import Cut, cut, least, moments
from coopsim.study.optimum.solve import knapsacks, schedules
from coopsim.trace import Trace, TraceBuilder, load
from coopsim.trace.measure import peak_bytes
from tests.conftest import ROOT
from tests.strategies import budget, dice, traces
from tests.study.optimum.brute_force import brute_force, check

pytest.importorskip("highspy")

#: The optimum is that of schedules without copies to the host.
RECOMPUTING = [name for name in policies.names() if not policies.find(name).offloads]


def bound(problem: Problem, nbytes: int) -> int | None:
    """The cut's bound of the whole cost; None: nothing fits."""
    costs = knapsacks(problem, nbytes)
    if costs is None:
        return None
    again = cut(problem, nbytes, (problem.live, costs), lambda: 10.0)
    return None if again is None else problem.base_cost + again


def chain() -> Trace:
    """x ─► a ─► b ─► c (10 B each; costs 5, 7, 9), a wide op (30 B), then ops that use c, then b, then nothing of a."""
    t = TraceBuilder()
    x = t.storage(1, Role.INPUT, alive_at_start=True)
    a, b, c, wide, d, e = (t.storage(n) for n in (10, 10, 10, 30, 1, 1))
    t.op("a", reads=[x], creates=[a], cost_ns=5)
    t.op("b", reads=[a], creates=[b], cost_ns=7)
    t.free(a)
    t.op("c", reads=[b], creates=[c], cost_ns=9)
    t.op("wide", reads=[x], creates=[wide], cost_ns=100)
    t.free(wide)
    t.op("d", reads=[c], creates=[d], cost_ns=1)
    t.free(c)
    t.op("e", reads=[b], creates=[e], cost_ns=1)
    for s in (b, d, e):
        t.free(s)
    return t.build({})


def test_by_hand() -> None:
    """Beside the wide op and x is room for b and c, one, or none: then b needs a again, which no knapsack sees."""
    problem = problem_of(chain())
    assert problem.base_cost == 123
    assert [bound(problem, n) for n in (51, 41, 31)] == [123, 132, 123 + 9 + 7 + 5]
    assert [solve(problem, n).cost_ns for n in (51, 41, 31)] == [123, 132, 144]
    assert max(knapsacks(problem, 31) or ()) == 9 + 7
    assert bound(problem, 30) is None  # the wide op alone needs 31
    assert bound(problem, 46) == 123 + 5  # half of c: 4.5, and costs are whole


def test_the_steps_of_a_trace_add_up() -> None:
    """Five steps, each with a moment of its own."""
    trace = load(ROOT / "traces" / "moe.parquet")
    problem, nbytes = problem_of(trace), peak_bytes(trace) // 2
    chain = moments(problem, nbytes, problem.live)
    assert len(chain) == trace.n_steps == 5
    assert [trace.step[moment] for moment, _ in chain] == [0, 1, 2, 3, 4]
    assert [until for _, until in chain] == [*(moment for moment, _ in chain[1:]), problem.n_ops - 1]
    last = Cut(problem, nbytes, *chain[-1])
    alone = last.proven(highs.minimise(last.rows, 10, relaxed=True).prices)
    assert 4 * alone < (bound(problem, nbytes) or 0) - problem.base_cost < 6 * alone


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(min_ops=4, max_ops=9, collectives=False), dice(1), st.randoms(use_true_random=False))
def test_brute_force_over_all_schedules_is_never_cheaper(trace: Trace, roll, rng: random.Random) -> None:
    """Neither than the bound, nor than the sum of cuts at any moments one after the other."""
    problem = problem_of(trace)
    if trace.n_ops > 13 or len(problem.size) > 13:
        return
    nbytes = budget(trace, 1, roll)
    cheapest, found = brute_force(trace, nbytes), bound(problem, nbytes)
    if cheapest is None:
        return
    assert found is not None
    assert found <= cheapest
    last = problem.n_ops - 1
    for count in (1, 1, 2, 3):
        chain = sorted(rng.sample(range(last), count))
        programs = [Cut(problem, nbytes, *span) for span in itertools.pairwise([*chain, last])]
        again = sum(p.proven(highs.minimise(p.rows, 10, relaxed=True).prices) for p in programs)
        assert problem.base_cost + again <= cheapest


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1), st.sampled_from(RECOMPUTING))
def test_no_replay_is_cheaper(trace: Trace, roll, policy: str) -> None:
    nbytes, problem = max(budget(trace, 1, roll), 512), problem_of(trace)
    lowest = bound(problem, nbytes)
    for spec in (policy, f"{policy}:dead=keep,release=keep"):
        schedule = replay(trace, spec, nbytes, "counter", steps=trace.n_steps)
        if schedule.header["outcome"] == "ok":
            assert lowest is not None
            assert lowest <= schedule.header["total_cost_ns"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1))
def test_no_knapsack_is_dearer(trace: Trace, roll) -> None:
    """Of the same moment, with all that comes after it; but for the rounding of prices, and up to a whole ns."""
    problem = problem_of(trace)
    nbytes = budget(trace, 1, roll)
    for op, cost in enumerate(knapsacks(problem, nbytes) or ()):
        program = Cut(problem, nbytes, op, problem.n_ops - 1)
        answer = highs.minimise(program.rows, 10, relaxed=True)
        if not answer.infeasible:
            assert program.proven(answer.prices) >= cost - 1e-6 * max(1, cost)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1), st.randoms(use_true_random=False))
def test_any_prices_prove_a_bound(trace: Trace, roll, rng: random.Random) -> None:
    """Weak duality holds for bad prices, too; the best come up to the solver's own result."""
    problem = problem_of(trace)
    nbytes = budget(trace, 1, roll)
    for moment, until in moments(problem, nbytes, problem.live):
        rows = Cut(problem, nbytes, moment, until).rows
        answer = highs.minimise(rows, 10, relaxed=True)
        if answer.infeasible:
            return
        assert float(least(rows, answer.prices)) == pytest.approx(answer.bound, rel=1e-6, abs=1e-3)
        wrong = [price * rng.uniform(-0.5, 3) for price in answer.prices]
        assert float(least(rows, wrong)) <= answer.bound * (1 + 1e-6) + 1e-3


def test_a_large_trace() -> None:
    """ResNet-50 at half memory: above the knapsack, below every policy, and near what Foresight's plan costs."""
    trace = load(ROOT / "traces" / "resnet-50.parquet")
    peak, problem = peak_bytes(trace), problem_of(trace)
    found = gap_in(trace, peak // 2, peak, RECOMPUTING, problem=problem)
    assert found.optimum.bound == "cut"
    assert problem.base_cost + max(knapsacks(problem, peak // 2) or ()) < found.optimum.lower_bound_ns
    overheads = [x for row in found.rows for x in (row.overhead, row.arena_overhead, row.planned_overhead) if x]
    assert len(overheads) > 15
    assert 1.08 < found.optimum.lower_bound < min(overheads) < 1.09


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1))
def test_schedules_from_a_cut_are_schedules(trace: Trace, roll) -> None:
    """In program order with each op, whatever fits; and those that fit are judged by other code, too."""
    problem, nbytes = problem_of(trace), budget(trace, 1, roll)
    for runs in schedules(problem, nbytes, lambda: 10.0):
        peak = needs(problem, runs).peak
        check(trace, peak, runs)
        again = [op for k, op in enumerate(runs) if op in runs[:k]]
        assert len(again) == len(set(again)) or trace.n_steps > 1, "each once"


def test_a_schedule_from_a_cut_on_a_large_trace() -> None:
    """DenseNet-121 at 30 % of its peak: less than half a point above the bound."""
    trace = load(ROOT / "traces" / "densenet-121.parquet")
    found = solve(problem_of(trace), peak_bytes(trace) * 3 // 10)
    assert found.status == "feasible"
    assert found.overhead is not None
    assert found.lower_bound < found.overhead < found.lower_bound + 0.005
