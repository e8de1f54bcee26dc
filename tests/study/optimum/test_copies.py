"""The optimum of schedules that may offload: by hand, no replay below it, and a schedule of the program, replayed."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coopsim.cards.link import Link
from coopsim.simulate.replay import planned_run, replay
from coopsim.study.optimum import Problem, highs, problem_of, solve
from coopsim.study.optimum.model_copies import model_of
from coopsim.study.optimum.moment import cut
from coopsim.study.validate import validate
from coopsim.trace import Trace, load
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import make
from tests.conftest import ROOT
from tests.strategies import budget, dice, traces
from tests.study.optimum.by_program import ByProgram
from tests.study.optimum.made import two

pytest.importorskip("highspy")

EITHER = ("coop:lose=either", "swap-lru", "dtr:lose=either", "foresight-offline:lose=either", "coop:lose=offload")


def link(ns: int) -> Link:
    """Over which 10 B take so long."""
    return Link("by hand", 10_000 // ns, 7_000 // ns, 0)


@pytest.mark.parametrize(
    ("ns", "hides", "host", "extra"),
    [
        (1, 0, None, 1),  # p goes while q is made; only its way back is waited for
        (2, 0, None, 2),
        (5, 0, None, 3),  # q again
        (2, 1, None, 1),
        (2, 2, None, 0),
        (5, 5, None, 2),  # p's way out takes 2 ns more than q's op
        (2, 2, 9, 3),  # no room on the host
        (2, 2, 10, 0),
    ],
)
def test_by_hand(ns: int, hides: int, host: int | None, extra: int) -> None:
    problem = problem_of(two(hides=hides), link=link(ns), host_memory=host)
    found = solve(problem, 31)
    assert (found.status, found.lower_bound_ns - problem.base_cost) == ("bounded", extra)
    assert solve(problem, 21).status == "infeasible"
    known = solve(problem, 31, costs=[found.lower_bound_ns])
    assert (known.status, known.cost_ns, known.runs) == ("optimal", found.lower_bound_ns, ())
    dearer = solve(problem, 31, costs=[found.lower_bound_ns + 1])
    assert (dearer.status, dearer.lower_bound_ns) == ("feasible", found.lower_bound_ns)


def bound(problem: Problem, nbytes: int) -> int | None:
    again = cut(problem, nbytes, (problem.live,), lambda: 10.0)
    return None if again is None else problem.base_cost + again


def links() -> st.SearchStrategy[Link]:
    """Over which 1000 B take 1 to 50 ns."""
    return st.builds(
        lambda rate, shared, latency: Link("random", rate, rate * shared // 10, latency),
        st.sampled_from([20_000, 100_000, 300_000, 1_000_000]),
        st.sampled_from([0, 4, 7, 10]),
        st.sampled_from([0, 2]),
    )


def check(trace: Trace, link: Link, nbytes: int, host: int | None, policy: str, *, whole: bool) -> None:
    problem = problem_of(trace, link=link, host_memory=host)
    lowest = bound(problem, nbytes)
    program = solve(problem, nbytes, seconds=5) if whole else None
    for allocator in ("counter", "arena"):
        if allocator == "arena" and nbytes < 512:
            continue
        schedule = replay(trace, policy, nbytes, allocator, steps=trace.n_steps, link=link, host_memory=host)
        if schedule.header["outcome"] == "ok":
            cost = schedule.header["total_cost_ns"]
            assert lowest is not None
            assert lowest <= cost
            assert program is None or (program.status != "infeasible" and program.lower_bound_ns <= cost)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(), dice(1), links(), st.sampled_from(EITHER), st.sampled_from([None, 3000]))
def test_no_replay_is_cheaper_than_the_cut(trace: Trace, roll, link: Link, policy: str, host: int | None) -> None:
    check(trace, link, budget(trace, 1, roll), host, policy, whole=False)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(4, 8), dice(1), links(), st.sampled_from(EITHER), st.sampled_from([None, 3000]))
def test_no_replay_is_cheaper_than_the_program(trace: Trace, roll, link: Link, policy: str, host: int | None) -> None:
    check(trace, link, budget(trace, 1, roll), host, policy, whole=trace.n_ops < 14)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces(4, 10), dice(1), links(), st.sampled_from(EITHER), st.sampled_from([None, 3000]))
def test_no_replay_is_cheaper(trace: Trace, roll, link: Link, policy: str, host: int | None) -> None:
    check(trace, link, budget(trace, 1, roll), host, policy, whole=trace.n_ops < 14)


def small() -> tuple[Trace, Link, int]:
    """A tree of 23 ops, a link over which its peak takes three steps, 80 % of the peak."""
    trace = make("synth:tree:3")
    peak = peak_bytes(trace)
    rate = round(peak * 1000 / int(trace.cost_ns.sum()) / 3)
    return trace, Link("small", rate, rate * 7 // 10, 0), int(0.8 * peak)


def test_copies_that_take_too_long_are_noticed() -> None:
    """A bound with slower copies than the replay's is above the replay: the check above can fail."""
    trace, link, nbytes = small()
    cost = replay(trace, "foresight-offline:lose=either", nbytes, steps=1, link=link).header["total_cost_ns"]
    assert (bound(problem_of(trace, link=link), nbytes) or 0) <= cost
    slow = Link("slow", link.rate_mb_s // 4, link.shared_rate_mb_s // 4, 0)
    assert (bound(problem_of(trace, link=slow), nbytes) or 0) > cost


@pytest.mark.slow
def test_a_schedule_of_the_program_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plan, with addresses: it costs what the program says, and Foresight's own plan no less."""
    trace, link, nbytes = small()
    problem = problem_of(trace, link=link)
    model = model_of(problem, nbytes)
    answer = highs.minimise(model.rows, 60)
    assert answer.finished
    assert answer.point is not None
    own = replay(trace, "foresight-offline:lose=either", nbytes, steps=1, link=link)
    monkeypatch.setattr(planned_run, "make", ByProgram(model, answer.point))
    schedule = replay(trace, "foresight-offline:lose=either", nbytes, steps=1, link=link)
    assert validate(schedule, trace) == []
    assert schedule.header["planned_steps"] == 1
    assert answer.bound > 0
    assert schedule.header["total_cost_ns"] == problem.base_cost + round(answer.bound)
    assert schedule.header["total_cost_ns"] <= own.header["total_cost_ns"]


def test_a_large_trace() -> None:
    """ResNet-50 at half memory: less than without copies, no more than a plan costs, and near it."""
    trace = load(ROOT / "traces" / "resnet-50.parquet")
    nbytes = peak_bytes(trace) // 2
    with_copies = bound(problem_of(trace, link=Link("pcie4", 25_000, 17_500)), nbytes)
    without = bound(problem_of(trace), nbytes)
    plan = replay(trace, "foresight-offline:lose=either", nbytes, steps=1, link=Link("pcie4", 25_000, 17_500))
    assert with_copies is not None
    assert without is not None
    base = int(trace.cost_ns.sum())
    assert 1.05 * base < with_copies < plan.header["total_cost_ns"] < with_copies + base // 200 < without


def test_the_command(coopsim) -> None:
    arguments = ("gap", "synth:chain:8", "--budget", "80%", "--policy", "foresight:lose=either,swap-lru")
    answer = coopsim(*arguments, "--link", "pcie5-x16")
    assert answer.code == 0
    assert "offload over pcie5-x16: least overhead 0.00 %, that of a policy" in answer.out
    (found,) = json.loads(coopsim(*arguments, "--link", "pcie5-x16", "--json").out)
    assert (found["link"], found["status"], found["runs"]) == ("pcie5-x16", "optimal", [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policy", "coop", "--link", "pcie4-x16"), "policies that offload: none is compared"),
        (("--policy", "coop:lose=either,offload_state=yes"), "offloads no parameters"),
        (("--link", "pcie9"), "pcie9"),
    ],
)
def test_bad_input(coopsim, arguments: tuple[str, ...], says: str) -> None:
    answer = coopsim("gap", "synth:chain:8", "--budget", "60%", *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert says in answer.err
