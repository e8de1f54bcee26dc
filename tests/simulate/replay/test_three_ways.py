"""The compiled core, the same code interpreted, and the slow reference agree action by action; the judge is content."""

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numba  # noqa: F401  (before JIT is disabled, which it would remember)
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, Dead, Lose, Planning
from coopsim.cards.link import Link
from coopsim.simulate import policies as shipped
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import Params, simulate
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from tests import reference
from tests.reference import memory
from tests.strategies import budget, dice, different_steps, long_steps, policies, repeatable, repeating, traces
from tests.strict import make_strict

NO_HOST = Params(dispatch_ns=0, alloc_ns=0, free_ns=0, search_ns_per_visit=0, evict_ns=0, queue_capacity=4)
SWITCH = "NUMBA_DISABLE_JIT"
CORE = ("coopsim.simulate.replay", "coopsim.simulate.kernel", "coopsim.simulate.allocators")
EXAMPLES = 200
#: One choice less than others, all of which test_any_policy draws, too; the first two are in test_plans.
SIMPLE = ("foresight", "foresight-offline", "dtr-local", "largest", "lru", "msps", "random", "static-dtr")
#: Choices that test_any_policy draws, too, with the search of dtr-oneflow or of coop.
BETWEEN = ("dtr", "dtr-eq", "dte-oneflow", "thrift")
TESTING = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@contextmanager
def _without_jit() -> Iterator[None]:
    """Inside, the core is imported anew and stays Python; outside, all is as it was."""
    ours = [name for name in sys.modules if name.startswith(CORE)]
    compiled = {name: sys.modules.pop(name) for name in ours}
    before = os.environ.get(SWITCH, "0")
    os.environ[SWITCH] = "1"
    try:
        yield
    finally:
        os.environ[SWITCH] = before
        for name in [name for name in sys.modules if name.startswith(CORE)]:
            del sys.modules[name]
        sys.modules |= compiled
        for name, module in compiled.items():
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


@pytest.fixture(scope="module")
def interpreted() -> Callable[..., Schedule]:
    """`replay` with JIT off, on arrays that say when an index is below zero."""
    with _without_jit():
        make_strict(importlib.import_module("coopsim.simulate.kernel.reference").Bundle)
        slow: Callable[..., Schedule] = importlib.import_module("coopsim.simulate.replay").replay
        assert not _kernels()
    assert slow is not replay
    assert _kernels()
    return slow


def _kernels() -> list[str]:
    """What is compiled in the modules of the core as they stand now."""
    modules = [module for name, module in sys.modules.items() if name.startswith(CORE)]
    return [name for module in modules for name, it in vars(module).items() if type(it).__name__ == "Kernel"]


@st.composite
def options(draw: st.DrawFn, trace: Trace) -> dict[str, object]:
    """All that `replay` takes besides trace and policy."""
    roll = draw(dice(8))
    allocator = roll.pick(["arena", "arena", "counter"])
    return {
        "allocator": allocator,
        "budget": budget(trace, reference.GRANULE[allocator], roll),
        "steps": 1 + roll.roll(4 if repeatable(trace) else trace.n_steps),
        "cost_model": roll.pick(["cost", "cost", "bytes", "flops", "unit"]),
        "overhead_limit": roll.pick([10.0, 10.0, 10.0, 1.2]),
        "random": roll.pick(["recompute", "recompute", "keep"]),
    }


@st.composite
def copies(draw: st.DrawFn, trace: Trace) -> dict[str, object]:
    """A link on which copies take about as long as ops, and a host with room for all or for little."""
    roll = draw(dice(4))
    rate = roll.pick([50_000, 300_000, 1_000_000, 1_000_000])
    of = roll.pick([10, 7, 3, 0])
    room = sum(-(-int(n) // 512) * 512 for n in trace.bytes) * roll.pick([100, 100, 10, 3]) // 100
    return {"link": Link("by hand", rate, rate * of // 10, roll.pick([0, 1, 9])), "host_memory": room}


def compare(trace: Trace, policy: Policy, how: dict[str, object], *others: Callable[..., Schedule]) -> Counter[str]:
    """Replay in every way; what happened, in words, so that a test can see that enough did."""
    close: list[None] = []
    outcome, rows = reference.replay(trace, policy, **how, near_tie=lambda: close.append(None))  # type: ignore[arg-type]
    assume(not close)  # the last bit of a sum decides, and the core may add in another order
    schedule = replay(trace, policy, **how)  # type: ignore[arg-type]
    assert [row[:8] for row in schedule.rows()] == [row[:8] for row in rows]
    assert schedule.header["outcome"] == outcome
    for other in others:
        same = other(trace, policy, **how)
        assert same.rows() == schedule.rows()
        assert same.header["outcome"] == outcome
    assert [str(fault) for fault in validate(schedule, trace)] == []
    seen = Counter({Action(a).name.lower() for a in schedule.action.tolist()})
    seen[outcome] += 1
    seen["by plan"] += bool(schedule.header.get("planned_steps"))
    seen["recomputed later"] += bool(((schedule.step > 0) & (schedule.action == Action.RECOMPUTE)).any())
    seen["examples"] += 1
    event(f"{outcome}, evictions: {seen['evict']}, recomputations: {seen['recompute']}")
    return seen


@pytest.mark.filterwarnings("ignore:invalid value encountered in scalar subtract")  # inf - inf in coop-oneflow's window
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in SIMPLE + BETWEEN else [])
        for n in shipped.names()
        if not shipped.find(n).offloads
    ],
)
def test_shipped_policies(name: str, interpreted: Callable[..., Schedule]) -> None:
    policy = shipped.find(name)
    seen: Counter[str] = Counter()

    @TESTING
    @given(st.data(), traces())
    def agree(data: st.DataObject, trace: Trace) -> None:
        seen.update(compare(trace, policy, data.draw(options(trace)), interpreted))

    agree()
    offline = policy.planning == Planning.OFFLINE  # what a plan lets go after its last use is evicted, not released
    _assert_much_happened(seen, release=0.3 if offline else 0.6)


@pytest.mark.parametrize(
    ("name", "known", "examples"),
    [
        ("foresight", repeating, EXAMPLES // 15),
        pytest.param("foresight", repeating, EXAMPLES // 5, marks=pytest.mark.slow),
        pytest.param("foresight-offline", repeating, EXAMPLES // 5, marks=pytest.mark.slow),
        ("foresight-offline", different_steps, EXAMPLES // 20),
        pytest.param("foresight-offline", different_steps, EXAMPLES, marks=pytest.mark.slow),
    ],
)
def test_plans(
    name: str, known: Callable[[], st.SearchStrategy[Trace]], examples: int, interpreted: Callable[..., Schedule]
) -> None:
    """Steps that repeat, or differ and are known beforehand: most go by plan, and recompute by it."""
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=examples)
    @given(known(), st.floats(0.5, 0.95), st.integers(2, 4))
    def agree(trace: Trace, ratio: float, steps: int) -> None:
        how = {"allocator": "arena", "budget": int(ratio * peak_bytes(trace, 512)), "steps": steps}
        seen.update(compare(trace, shipped.find(name), how, interpreted))

    agree()
    assert seen["by plan"] > 0.5 * seen["examples"], seen
    assert seen["recomputed later"] > 0.5 * seen["examples"], seen


@pytest.mark.parametrize("lose", [pytest.param("either", marks=pytest.mark.slow), "either,offload_state=yes"])
@pytest.mark.parametrize(
    ("name", "known", "examples"),
    [
        ("foresight-offline", repeating, EXAMPLES // 15),
        pytest.param("foresight-offline", repeating, EXAMPLES // 5, marks=pytest.mark.slow),
        pytest.param("foresight", repeating, EXAMPLES // 5, marks=pytest.mark.slow),
        pytest.param("foresight-offline", different_steps, EXAMPLES // 5, marks=pytest.mark.slow),
    ],
)
def test_plans_that_offload(
    name: str,
    known: Callable[[], st.SearchStrategy[Trace]],
    examples: int,
    lose: str,
    interpreted: Callable[..., Schedule],
) -> None:
    """Most steps go by plan and offload by it; the timeline has the same stall."""
    policy = shipped.find(f"{name}:lose={lose}")
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=examples)
    @given(st.data(), known(), st.floats(0.5, 0.95), st.integers(2, 4))
    def agree(data: st.DataObject, trace: Trace, ratio: float, steps: int) -> None:
        how = {"allocator": "arena", "budget": int(ratio * peak_bytes(trace, 512)), "steps": steps}
        how |= data.draw(copies(trace))
        seen.update(compare(trace, policy, how, interpreted))
        schedule = replay(trace, policy, **how)  # type: ignore[arg-type]
        if schedule.header["outcome"] == "ok":
            line = simulate(schedule, trace, NO_HOST)
            assert line.total_ns == schedule.header["total_cost_ns"]
            assert line.stall_ns == schedule.header["stall_ns"]

    agree()
    assert seen["by plan"] > 0.5 * seen["examples"], seen
    assert seen["fetch"] > 0.3 * seen["examples"], seen


def test_plans_whose_ops_wait_for_copies_out(interpreted: Callable[..., Schedule]) -> None:
    """No op may run again, so little else fits. An eviction by plan waits only where the plan says so."""
    policy = shipped.find("foresight-offline:lose=either,offload_state=yes")
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=EXAMPLES // 20)
    @given(st.data(), repeating(), st.floats(0.5, 0.8))
    def agree(data: st.DataObject, trace: Trace, ratio: float) -> None:
        trace = replace(trace, random=np.ones(trace.n_ops, bool))
        how = {"allocator": "arena", "budget": int(ratio * peak_bytes(trace, 512)), "steps": 2, "random": "keep"}
        how |= data.draw(copies(trace))
        seen.update(compare(trace, policy, how, interpreted))
        schedule = replay(trace, policy, **how)  # type: ignore[arg-type]
        if schedule.header["planned_steps"] == 2:
            ran = np.isin(schedule.action[:-1], (Action.COMPUTE, Action.RECOMPUTE))
            later = schedule.time_ns[1:] > schedule.time_ns[:-1]
            seen["waits"] += bool((later & ~ran & (schedule.action[1:] == Action.EVICT)).any())

    agree()
    assert seen["waits"] > 0.3 * seen["examples"], seen


def test_swap_lru(interpreted: Callable[..., Schedule]) -> None:
    """What is offloaded on demand, with and without parameters and the like."""
    for spec in ("swap-lru", "swap-lru:offload_state=yes"):
        _offload(spec, interpreted)


#: A window that may do either, and one value after the other without recomputation.
QUICK = {("coop", "either,offload_state=yes"), ("dtr-oneflow", "offload")}


@pytest.mark.parametrize(
    ("name", "lose"),
    [
        pytest.param(p, lose, marks=[] if (p, lose) in QUICK else [pytest.mark.slow])
        for p in shipped.names()
        if not shipped.find(p).plans and not shipped.find(p).offloads
        for lose in ("offload", "either", "either,offload_state=yes")
    ],
)
def test_offload(name: str, lose: str, interpreted: Callable[..., Schedule]) -> None:
    """Every policy that does not plan, in each form of `lose`; and the timeline has the same stall."""
    _offload(f"{name}:lose={lose}", interpreted)


def _offload(spec: str, interpreted: Callable[..., Schedule]) -> None:
    policy = shipped.find(spec)
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=EXAMPLES // 4)
    @given(st.data(), traces())
    def agree(data: st.DataObject, trace: Trace) -> None:
        how = data.draw(options(trace)) | data.draw(copies(trace)) | {"cost_model": "cost"}
        seen.update(compare(trace, policy, how, interpreted))
        schedule = replay(trace, policy, **how)  # type: ignore[arg-type]
        if schedule.header["outcome"] == "ok":
            line = simulate(schedule, trace, NO_HOST)
            assert line.total_ns == schedule.header["total_cost_ns"]
            assert line.stall_ns == schedule.header["stall_ns"]

    agree()
    wanted = {"ok": 0.4, "offload": 0.15, "fetch": 0.05, "discard": 0.08}
    wanted |= {"recompute": 0.15} if policy.lose == Lose.EITHER else {}
    for what, share in wanted.items():
        assert seen[what] > share * seen["examples"], (what, seen)


def test_preferred_addresses(interpreted: Callable[..., Schedule]) -> None:
    """In a good part of the examples most values are small for their memory, and belong somewhere later on."""
    policy, ends = shipped.find("thrift"), shipped.find("thrift:placement=two_ended")
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=EXAMPLES // 20)
    @given(long_steps(), st.floats(0.7, 0.95), st.integers(2, 3))
    def agree(trace: Trace, ratio: float, steps: int) -> None:
        how = {"allocator": "arena", "budget": int(ratio * peak_bytes(trace, 512)), "steps": steps}
        seen.update(compare(trace, policy, how, interpreted))
        schedule, other = (replay(trace, p, **how) for p in (policy, ends))  # type: ignore[arg-type]
        made = (schedule.action == Action.ALLOC) & (schedule.step > 0)
        small = 32 * schedule.bytes[made] <= schedule.header["budget_bytes"]
        elsewhere = set(schedule.address[made].tolist()) - set(other.address.tolist())
        seen["at home"] += bool(small.mean() > 0.5 and len(elsewhere) > 10)

    agree()
    for what, share in {"evict": 0.9, "recomputed later": 0.9, "ok": 0.9, "at home": 0.3}.items():
        assert seen[what] > share * seen["examples"], (what, seen)


@pytest.mark.parametrize(
    "policy", ["coop-oneflow", *(pytest.param(p, marks=pytest.mark.slow) for p in ("dtr-oneflow", "coop"))]
)
def test_small_area(policy: str, interpreted: Callable[..., Schedule]) -> None:
    """Sizes from 4 B to 8 MiB, half of them small; the area has 10 MiB, and what lies across its border."""
    seen: Counter[str] = Counter()

    @settings(TESTING, max_examples=EXAMPLES // 2)
    @given(st.data(), traces(collectives=False))
    def agree(data: st.DataObject, trace: Trace) -> None:
        trace = replace(trace, bytes=np.where(trace.bytes > 1000, trace.bytes << 11, 15 * trace.bytes))
        how = data.draw(options(trace)) | {"allocator": "arena"}
        how["budget"] = int(how["budget"]) + memory.SMALL_AREA  # type: ignore[call-overload]
        seen.update(compare(trace, shipped.find(f"{policy}:small_area=top"), how, interpreted))
        schedule = replay(trace, f"{policy}:small_area=top", **how)  # type: ignore[arg-type]
        low = (schedule.address < how["budget"] - memory.SMALL_AREA) & (schedule.bytes > 0)
        seen["small ones above"] += bool((~low & (schedule.bytes <= memory.SMALL) & (schedule.bytes > 0)).any())

    agree()
    for what, share in {"evict": 0.3, "small ones above": 0.8, "oom": 0.05, "ok": 0.5}.items():
        assert seen[what] > share * seen["examples"], (what, seen)


@pytest.mark.parametrize(
    "spec",
    [
        "dtr-eq:release=banish,dead=release",
        pytest.param("dtr:release=banish", marks=pytest.mark.slow),
        pytest.param("coop:release=banish", marks=pytest.mark.slow),
    ],
)
def test_banishing(spec: str, interpreted: Callable[..., Schedule]) -> None:
    policy = shipped.find(spec)
    seen: Counter[str] = Counter()

    @TESTING
    @given(st.data(), traces())
    def agree(data: st.DataObject, trace: Trace) -> None:
        seen.update(compare(trace, policy, data.draw(options(trace)), interpreted))

    agree()
    assert policy.dead == Dead.RELEASE or not seen["release"]
    for what, share in {"evict": 0.45, "recompute": 0.25, "free": 0.8, "ok": 0.3, "oom": 0.1}.items():
        assert seen[what] > share * seen["examples"], (what, seen)


def test_any_policy() -> None:
    """Corners of the policy space that nobody ships."""
    seen = _any_policy(settings(TESTING, max_examples=3 * EXAMPLES))
    assert all(seen[outcome] for outcome in ("ok", "oom", "thrash", "lost")), seen


@pytest.mark.slow
def test_any_policy_at_length() -> None:
    """The same, on other examples every time."""
    _any_policy(settings(TESTING, max_examples=10_000, derandomize=False, database=None))


def _any_policy(how_many: settings) -> Counter[str]:
    seen: Counter[str] = Counter()

    @how_many
    @given(st.data(), traces(), policies())
    def agree(data: st.DataObject, trace: Trace, policy: Policy) -> None:
        seen.update(compare(trace, policy, data.draw(options(trace))))

    agree()
    _assert_much_happened(seen)
    return seen


def _assert_much_happened(seen: Counter[str], release: float = 0.6) -> None:
    """A comparison of replays in which nothing is evicted would prove nothing."""
    shares = {"evict": 0.45, "recompute": 0.25, "release": release, "move": 0.25, "ok": 0.5, "oom": 0.1}
    for what, share in shares.items():
        assert seen[what] > share * seen["examples"], (what, seen)
