"""The figures of a replay, counted again from its schedule: the core's counters must say what the actions show."""

import pytest

from coopsim.base.types import Action
from coopsim.simulate import policies
from coopsim.simulate.metrics import SUMMARY_KEYS, summary
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure, replay
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import GIVES_BACK

DOCUMENTED = """trace, policy, allocator, budget_bytes, steps, outcome, overhead, base_cost_ns, total_cost_ns,
    peak_bytes, evictions, releases, recomputes, recompute_cost_ns, fragmentation_rate, fragmentation_rate_incl,
    search_ns, search_visits, planned_steps, planning_ns, lost_cost_ns"""


def test_every_documented_key_is_there() -> None:
    assert {key.strip() for key in DOCUMENTED.split(",")} <= set(SUMMARY_KEYS)


@pytest.mark.parametrize("policy", policies.names())
def test_counters_agree_with_the_actions(bert: Trace, policy: str) -> None:
    budget = peak_bytes(bert, 512) * 6 // 10
    schedule = replay(bert, policy, budget, steps=2)
    figures = summary(schedule)
    used = peak = total = recompute = stall = 0
    offloads = figures["link"] is not None
    count = dict.fromkeys(Action, 0)
    free_ratios, including = [], []
    for action, _, op, _, _, _, nbytes, time_ns, visits in schedule.rows():
        count[Action(action)] += 1
        if offloads and action in (Action.EVICT, Action.COMPUTE, Action.RECOMPUTE):
            stall += time_ns - total
            total = time_ns
        if action != Action.MOVE:  # an in-place move is part of its op
            assert time_ns == total
        if action in (Action.COMPUTE, Action.RECOMPUTE):
            total += int(bert.cost_ns[op])
            recompute += int(bert.cost_ns[op]) * (action == Action.RECOMPUTE)
        elif action == Action.ALLOC:
            used += nbytes
            peak = max(peak, used)
            if visits:
                free_ratios.append((figures["budget_bytes"] - used) / figures["budget_bytes"])
                including.append((figures["budget_bytes"] - used + nbytes) / figures["budget_bytes"])
        elif action in GIVES_BACK:
            used -= nbytes
    assert (figures["total_cost_ns"], figures["recompute_cost_ns"], figures["peak_bytes"]) == (total, recompute, peak)
    assert figures["evictions"] == count[Action.EVICT] > 0
    assert figures["releases"] == count[Action.RELEASE]
    assert figures["recomputes"] == count[Action.RECOMPUTE]
    assert bool(figures["recomputes"]) != offloads
    assert figures["stall_ns"] == (stall if offloads else None)
    assert not offloads or (figures["offloads"], figures["fetches"]) == (count[Action.OFFLOAD], count[Action.FETCH])
    assert figures["searches"] == len(free_ratios) + (figures["outcome"] == "oom")  # the last search found nothing
    for key, found in (("fragmentation_rate", free_ratios), ("fragmentation_rate_incl", including)):
        mean = pytest.approx(sum(found) / len(found), rel=1e-12) if found else None  # offline, nothing is searched for
        assert figures[key] == mean
    if figures["outcome"] == "ok":
        assert figures["overhead"] == total / (2 * int(bert.cost_ns.sum()))
    else:
        assert figures["overhead"] is None


def test_measuring_gives_the_same_figures_as_recording(bert: Trace) -> None:
    budget = peak_bytes(bert, 512) * 6 // 10
    recorded = summary(replay(bert, "coop", budget, steps=1))
    measured = measure(bert, "coop", budget, options=ReplayOptions(1))
    assert recorded | {"search_ns": 0} == measured | {"search_ns": 0}
    assert recorded["planned_steps"] is recorded["planning_ns"] is recorded["lost_cost_ns"] is None


def test_who_plans_tells_of_its_plans(bert: Trace) -> None:
    budget = peak_bytes(bert, 512) * 6 // 10
    figures = measure(bert, "foresight", budget, options=ReplayOptions(3))
    assert (figures["planned_steps"], figures["lost_cost_ns"]) == (2, 0)
    assert figures["planning_ns"] > 0


def test_all_the_memory_it_could_want_means_no_eviction_in_a_counter(bert: Trace) -> None:
    figures = measure(bert, "coop", peak_bytes(bert, 1), "counter", ReplayOptions(2))
    assert figures["outcome"] == "ok"
    assert figures["evictions"] == figures["recomputes"] == 0
    assert figures["overhead"] == 1.0
    assert figures["peak_bytes"] == peak_bytes(bert, 1)
    assert figures["fragmentation_rate"] is None
