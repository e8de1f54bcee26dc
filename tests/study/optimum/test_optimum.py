"""The optimum: small cases by hand, brute force, and no policy below it."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Role
from coopsim.cli.gap import describe
from coopsim.simulate import policies
from coopsim.simulate.replay import replay
from coopsim.study.optimum import gap_in, highs, needs, problem_of, solve
from coopsim.study.optimum.gap import runs_of
from coopsim.study.optimum.solve import knapsacks
from coopsim.trace import Trace, TraceBuilder, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make
from tests.conftest import ROOT
from tests.strategies import budget, dice, traces
from tests.study.optimum.brute_force import brute_force, check
from tests.study.optimum.made import two

pytest.importorskip("highspy")

#: The optimum is that of schedules without copies to the host.
RECOMPUTING = [name for name in policies.names() if not policies.find(name).offloads]


def line(*, in_place: bool = False) -> Trace:
    """x ─► a ─► b ─► c, then an op that reads a and c; 100 B each, costs 1, 10, 100, 1000, 5."""
    t = TraceBuilder()
    x = t.storage(100, Role.INPUT, alive_at_start=True)
    a, b, c, d = (t.storage(100) for _ in range(4))
    t.op("a", reads=[x], creates=[a], cost_ns=1)
    t.op("b", reads=[a], creates=[b], cost_ns=10)
    if in_place:
        t.op("c", mutates=[b], cost_ns=100)
        c = b
    else:
        t.op("c", reads=[b], creates=[c], cost_ns=100)
        t.free(b)
    t.op("d", reads=[a, c], creates=[d], cost_ns=1000)
    t.free(a)
    t.free(c)
    t.free(d)
    return t.build({"model": "line"})


@pytest.mark.parametrize(
    ("in_place", "nbytes", "status", "cost", "runs"),
    [
        # The input stays: x a b c at op c, x a c d at op d.
        (False, 400, "optimal", 1111, [0, 1, 2, 3]),
        (False, 399, "infeasible", None, []),  # op d alone: x, a, c, d
        # In place the older b makes room for its successor, and a may stay.
        (True, 400, "optimal", 1111, [0, 1, 2, 3]),
    ],
)
def test_by_hand(in_place: bool, nbytes: int, status: str, cost: int | None, runs: list[int]) -> None:
    found = solve(problem_of(line(in_place=in_place)), nbytes)
    assert (found.status, found.cost_ns, list(found.runs)) == (status, cost, runs)


def test_dropping_the_cheaper_of_two() -> None:
    problem = problem_of(two())
    assert [solve(problem, n).cost_ns for n in (41, 40, 31, 30, 21)] == [111, 114, 114, 121, None]
    assert solve(problem, 31).runs == [0, 1, 2, 1, 3]
    assert knapsacks(problem, 31) == [0, 0, 3, 0]
    assert knapsacks(problem, 36) == [0, 0, 1.5, 0]  # half of q: 5 of its 10 bytes are too many
    assert knapsacks(problem, 21) is None  # the last op alone needs 22


def test_the_textbook_chain() -> None:
    """Eight equal layers: with room for all nothing is recomputed; the tighter, the more, until one op does not fit."""
    trace = make("chain:8")
    problem, peak = problem_of(trace), peak_bytes(trace)
    found = [solve(problem, peak * percent // 100) for percent in (100, 80, 60, 50, 40, 30)]
    assert [o.status for o in found] == ["optimal"] * 5 + ["infeasible"]
    again = [(o.cost_ns or 0) - problem.base_cost for o in found[:5]]
    assert again == [0, 20_000, 40_000, 70_000, 210_000]


def test_sequences_that_are_no_schedules() -> None:
    problem = problem_of(line())
    for runs, says in [
        ([0, 1, 3, 2], "program order"),
        ([0, 1, 2], "never runs"),
        ([0, 1, 2, 3, 3], "program order"),
    ]:
        with pytest.raises(ValueError, match=says):
            needs(problem, runs)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(min_ops=4, max_ops=9, collectives=False), dice(1))
def test_brute_force_over_all_schedules_agrees(trace: Trace, roll) -> None:
    problem = problem_of(trace)
    if trace.n_ops > 13 or len(problem.size) > 13:
        return
    nbytes = budget(trace, 1, roll)
    least, found = brute_force(trace, nbytes), solve(problem, nbytes, seconds=20)
    if least is None:
        assert found.status in ("infeasible", "bounded")
        return
    assert found.lower_bound_ns <= least
    assert found.status != "infeasible"
    if found.status in ("optimal", "feasible"):
        assert found.cost_ns is not None
        assert found.cost_ns >= least
        check(trace, nbytes, found.runs)
        assert sum(int(trace.cost_ns[op]) for op in found.runs) == found.cost_ns
    if found.status == "optimal":
        assert found.cost_ns == least


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1), st.sampled_from(RECOMPUTING))
def test_every_replay_is_a_schedule_and_none_beats_the_bound(trace: Trace, roll, policy: str) -> None:
    nbytes, problem = budget(trace, 1, roll), problem_of(trace)
    lowest = knapsacks(problem, nbytes)
    others = ("in_place=recomputable", "in_place=copy,dead=keep,release=keep", "dead=keep,release=banish")
    for spec in (policy, *(f"{policy}:{other}" for other in others)):
        for allocator in ("counter", "arena"):
            if nbytes < 512:
                continue
            schedule = replay(trace, spec, nbytes, allocator, steps=trace.n_steps)
            if schedule.header["outcome"] == "ok":
                assert needs(problem, runs_of(schedule)).peak <= nbytes
                check(trace, nbytes, runs_of(schedule))
                assert lowest is not None
                assert problem.base_cost + max(lowest) <= schedule.header["total_cost_ns"] * (1 + 1e-9)
                if trace.n_ops < 20:
                    assert solve(problem, nbytes, seconds=3).lower_bound_ns <= schedule.header["total_cost_ns"]


def test_what_follows_a_collective_is_pinned_only_where_a_policy_would_lose_it() -> None:
    """y = gather(x) is dropped before c is used. Who may drop b loses c with it; who updates it in place does not."""
    t = TraceBuilder()
    x = t.storage(1024, Role.INPUT, alive_at_start=True)
    y, b, c, big, last = t.storage(512), t.storage(512), t.storage(512), t.storage(1536), t.storage(512)
    t.op("gather", reads=[x], creates=[y], cost_ns=9, peers=2)
    t.op("b", reads=[y], creates=[b], cost_ns=9)
    t.op("add_", reads=[b], mutates=[b], cost_ns=9)
    t.op("c", reads=[b], creates=[c], cost_ns=1)
    t.op("big", reads=[y], creates=[big], cost_ns=9)
    t.free(y)
    t.free(big)
    t.op("last", reads=[b, c], creates=[last], cost_ns=9)
    trace = t.build({"model": "gathered"})
    problem, nbytes = problem_of(trace), 1024 + 512 + 512 + 1536  # x, y, b and big, not c
    schedule = replay(trace, "coop", nbytes, "counter", steps=1)
    assert (schedule.header["outcome"], runs_of(schedule)) == ("ok", [0, 1, 2, 3, 4, 3, 5])
    assert needs(problem, runs_of(schedule)).peak == nbytes
    found = solve(problem, nbytes)
    assert (found.status, found.cost_ns) == ("optimal", 47)  # the collective never runs again
    found = solve(problem, nbytes - 512)  # y is kept longer than the program keeps it, and b is made again
    assert (found.status, found.cost_ns) == ("optimal", 46 + 9 + 9 + 1)


@pytest.mark.parametrize("percent", [60])
def test_a_long_trace_gets_the_cut(bert: Trace, percent: int) -> None:
    """BERT-Large is too long for the program; its bound still says something, and holds."""
    peak = peak_bytes(bert)
    found = gap_in(bert, peak * percent // 100, peak, ["dtr-oneflow", "coop"])
    assert (found.optimum.status, found.optimum.bound) == ("feasible", "cut")
    assert 1.04 < found.optimum.lower_bound < min(r.overhead or 9 for r in found.rows)
    assert "times the bound" in describe(found)


@pytest.mark.parametrize(("name", "ratio"), [("chain:8", 0.6), ("resnet", 0.8), ("mlp", 0.8)])
def test_expected_gaps(name: str, ratio: float) -> None:
    """Rows of experiments/expected/gap.csv, made again."""
    from experiments.optimum import gap as experiment

    expected = pd.read_csv(ROOT / "experiments" / "expected" / "gap.csv")
    expected = expected[(expected.trace == name) & (expected.memory_ratio == ratio)]
    some = ["coop", "dtr-oneflow", "static-dtr"]
    found = pd.DataFrame(experiment.measure(name, ratio, some)).round(6)
    assert set(found.status) == {"optimal"}
    wanted = expected[expected.policy.isin(some)].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_the_command(coopsim) -> None:
    answer = coopsim("gap", "synth:chain:8", "--budget", "60%,20%", "--policy", "coop,static-dtr")
    assert answer.code == 0
    assert "least overhead 18.10 %, 4 ops run again" in answer.out
    assert "nothing fits" in answer.out
    assert "1.75 times the least" in answer.out
    answer = coopsim("gap", "synth:chain:8", "--budget", "60%", "--policy", "lru", "--json")
    (found,) = json.loads(answer.out)
    assert found["status"] == "optimal"
    assert found["policies"][0]["excess_ratio"] == pytest.approx(1.75)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--budget", "60"), "has no unit"),
        (("--budget", "60%,lots"), "not an amount of memory"),
        (("--budget", "90%:50%"), "not FROM:TO:STEP"),
        (("--budget", "60%", "--policy", "lruu"), "did you mean lru"),
        (("--budget", "60%", "--policy", ""), "unknown policy ''"),
        (("--budget", "60%", "--time-limit", "0"), "not a whole number from 1 to a million"),
        ((), "required: --budget"),
    ],
)
def test_bad_input(coopsim, arguments: tuple[str, ...], says: str) -> None:
    answer = coopsim("gap", "synth:chain:8", *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert says in answer.err


def test_the_small_traces_are_what_was_recorded() -> None:
    for path in sorted((ROOT / "tests/data/gap").glob("*.parquet")):
        trace = load(path)
        assert trace.n_ops < 100
        assert str(trace.header["command"]).startswith("coopsim capture")


def test_a_time_limit_is_kept() -> None:
    trace = load(ROOT / "tests/data/gap/lstm.parquet")
    found = solve(problem_of(trace), peak_bytes(trace) * 60 // 100, seconds=1)
    assert found.seconds < 10
    assert found.lower_bound >= 1


def test_a_solver_that_is_proven_wrong_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound above a schedule that fits, and "no solution" where one is known."""
    trace = make("synth:chain:12")
    problem, nbytes = problem_of(trace), peak_bytes(trace, 512) // 2
    right = solve(problem, nbytes)
    assert (right.status, right.bound) == ("optimal", "exact")
    asked = highs.minimise

    def too_dear(*arguments: Any, **options: Any) -> highs.SolverAnswer:
        answer = asked(*arguments, **options)
        return replace(answer, bound=2 * answer.bound + 1, point=None)

    def impossible(*_: Any, **__: Any) -> highs.SolverAnswer:
        return highs.SolverAnswer(infeasible=True, finished=True, point=None, bound=0.0)

    for wrong in (too_dear, impossible):
        monkeypatch.setattr(highs, "minimise", wrong)
        found = solve(problem, nbytes, known=[right.runs])
        assert (found.status, found.cost_ns) == ("feasible", right.cost_ns)
        assert found.bound in ("cut", "knapsack", "base")
        assert found.lower_bound_ns < right.lower_bound_ns
