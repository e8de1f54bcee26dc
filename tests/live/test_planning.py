"""Plans that are replanned: each leaves more of the budget, until steps are steady, or no other is left."""

from itertools import pairwise
from typing import Any

from tests.conftest import Runner

REPLAN = """
from dataclasses import replace
from coopsim.live import schedules
from coopsim.live.signatures import Signature
from coopsim.live import ladder, planning as plannings
from coopsim.live.planning import Planning
from coopsim.live.ladder import StepTook
from coopsim.trace import synth
def planned(size, room, warm_up_steps=3, retry_ns=4.1e6):
    plannings.WARM_UP_STEPS, ladder.RETRY_NS = warm_up_steps, retry_ns
    trace = synth.unet(size)
    limit = int(room * schedules.least(trace).nbytes)
    signature = Signature(trace, [], 1)
    planning = Planning("foresight-offline", limit)
    planning.learn(signature)
    return signature, planning
def replanned(taken, calls=lambda margin: 0, steps=12, size=4, room=1.1, retries=1, **parameters):
    signature, planning = planned(size, room, **parameters)
    limit, found = planning.limit, []
    for _ in range(steps):
        state, margin = signature.state, signature.state.margin / limit
        found.append({"margin": round(margin, 3), "cost": state.schedule.overhead, "schedule": id(state.schedule)})
        n = calls(margin)
        planning.validate(signature, StepTook(int(taken(margin) * limit), False, n, n * retries))
    return found, signature.state.validated, signature.state.stays
"""


def costs(found: list[dict[str, Any]]) -> list[float]:
    return [plan["cost"] for plan in found]


def margins(found: list[dict[str, Any]]) -> list[float]:
    return [plan["margin"] for plan in found]


def test_a_signature_is_replanned_until_steps_keep_to_the_budget(child: Runner) -> None:
    """A step takes 6 % of the budget more than its plan: the next one leaves as much at least."""
    found, validated, stays = child(REPLAN + "answer(replanned(lambda margin: 1.06 - margin))")
    assert (validated, stays) == (True, False)
    assert margins(found) == [0] + [0.08] * 11
    assert costs(found) == sorted(costs(found))


def test_a_margin_that_changes_no_plan_is_passed_over(child: Runner) -> None:
    """Tensors are few and large. A step takes 3 % more than the budget unless the plan leaves 5."""
    found, validated, _ = child(REPLAN + "answer(replanned(lambda m: 1.03 if m < 0.05 else 1, size=1, room=1.3))")
    assert validated
    assert margins(found)[:2] == [0, 0.08]  # at 4 % it is the same


def test_where_no_plan_keeps_to_it_the_cheapest_serves(child: Runner) -> None:
    """A step takes a sixteenth more than the budget whatever is left."""
    found, validated, stays = child(REPLAN + "answer(replanned(lambda margin: 17 / 16))")
    assert (validated, stays) == (False, True)
    assert set(margins(found)) == {0, 0.08}
    assert found[-1] == found[0]
    assert costs(found)[0] == min(costs(found)) < max(costs(found))


def test_where_steps_run_out_of_memory_by_all_plans_the_one_that_leaves_most_serves(child: Runner) -> None:
    """After three more steps there is none; and the plan file says that they are not steady."""
    text = """
signature, planning = planned(size=4, room=1.1)
tried = []
for _ in range(16):
    tried.append(signature.state.margin)
    planning.validate(signature, StepTook(0, ran_out=True))
state = signature.state
found = [state.margin == max(tried), state.plan is None, state.stays, state.allocating > 0, len(set(tried)) > 2]
signature.state = replace(state, why="", plan=planning._plan(signature, state.candidate), ran_out=0)
for ran_out in (True, False, False, True):
    planning.validate(signature, StepTook(0, ran_out))
found += [signature.plan is not None, signature.state.ran_out == 2]
planning.validate(signature, StepTook(0, ran_out=True))
answer([*found, signature.plan is None])
"""
    assert child(REPLAN + text) == [True] * 8


def test_a_plan_that_stays_as_others_cost_more_is_left_once_steps_exceed_the_budget_by_it(child: Runner) -> None:
    """It was only not steady; and if steps exceed it by all others, one of them stays for good."""
    text = """
signature, planning = planned(8, 1.3, warm_up_steps=0, retry_ns=0.0)
limit, found = planning.limit, []
for nbytes, retries in [(0, 1), (limit, 0), *[(limit + 1, 0)] * 12]:
    planning.validate(signature, StepTook(nbytes, False, retries, retries))
    found.append([signature.state.stays, signature.state.margin])
answer(found)
"""
    (stays, first), (_, same), (tried, margin), *others = child(REPLAN + text)
    assert (stays, same, tried) == (True, first, False)
    assert margin > first
    assert others[-1][0]
    assert others[-1] == others[-4]


STEADY = "answer(replanned(lambda margin: 1, lambda margin: int(margin < {}), 40, 8, 1.3, {}, retry_ns={}))"


def test_a_signature_is_replanned_until_its_steps_leave_the_device_s_memory_alone(child: Runner) -> None:
    """They do once 3 % are left of the budget. The first steps by each plan may shape the allocator's segments."""
    found, validated, _ = child(REPLAN + STEADY.format(0.03, 1, 1e18))
    assert validated
    assert margins(found) == [0] * 4 + [0.02] * 4 + [0.04] * 32


def test_a_plan_is_tried_once_more_with_memory_laid_out_anew(child: Runner) -> None:
    """On a GPU, and no more by a plan for which it was, as after steps that spilled."""
    text = """
signature, planning = planned(size=4, room=1.1)
planning.on_gpu, found, replans = True, [], []
for _ in range(11):
    found.append(planning.lays_out([signature]))
    planning.validate(signature, StepTook(0, calls=1, retries=1))
    replans.append(planning.replans)
planning.scattered = True
answer([found, replans, planning.lays_out([]), planning.lays_out([signature]), signature.state.laid_out])
"""
    found, replans, none, scattered, laid_out = child(REPLAN + text)
    assert [step for step, due in enumerate(found) if due] == [4, 8]
    assert replans == [0] * 7 + [1] * 4
    assert (none, scattered, laid_out) == (False, True, True)


def test_where_steps_are_steady_by_no_plan_the_cheapest_that_kept_to_the_budget_stays(child: Runner) -> None:
    found, validated, stays = child(REPLAN + STEADY.format(1, 1, 1e18))
    assert (validated, stays) == (True, True)
    assert margins(found) == [0] * 4 + [0.02] * 4 + [0.04] * 4 + [0.08] * 4 + [0.16] * 4 + [0] * 20


def test_of_plans_that_all_have_retries_the_one_stays_that_costs_least_with_them(child: Runner) -> None:
    """By plans that leave little, a step gives back the allocator's cache four times; by others twice."""
    retries = "lambda margin: 4 if margin < 0.1 else 2"
    found, validated, stays = child(REPLAN + f"answer(replanned(lambda m: 1, {retries}, 40, 8, 1.3, retry_ns=1e18))")
    assert (validated, stays) == (True, True)
    assert margins(found)[-1] == 0.16


def test_a_plan_that_leaves_more_and_costs_less_is_taken_in_place_of_an_expensive_one(child: Runner) -> None:
    text = """
from types import SimpleNamespace
from coopsim.live.signatures import Candidate, Failure
def candidate(margin, cost):
    made = SimpleNamespace(overhead=cost, **dict.fromkeys(("action", "op", "storage", "version"), [margin]))
    return Candidate(margin, made)
def next_one(*costs):  # of plans that leave 40, 80, 160 and 320 of 1000 bytes
    by_margin = {margin: candidate(margin, cost) for margin, cost in zip((40, 80, 160, 320), costs)}
    search = SimpleNamespace(limit=1000, leaving=lambda margin: by_margin.get(margin, "none"))
    return ladder.climb((Failure(candidate(20, 1.02), excess=9),), search).margin
answer([next_one(1.4, 1.3, 1.35), next_one(1.09, 1.05), next_one(1.4, 1.5)])
"""
    assert child(REPLAN + text) == [80, 40, 40]


def test_retries_count_by_all_steps_of_a_plan(child: Runner) -> None:
    """And not by the latest, which had more than others: on average there are fewer by plans that leave little."""
    text = """
from itertools import cycle
few = cycle([1, 1, 1, 4])
answer(replanned(lambda m: 1, lambda margin: next(few) if margin < 0.1 else 2, 40, 8, 1.3, retry_ns=1e18))
"""
    found, _, stays = child(REPLAN + text)
    assert stays
    assert margins(found)[-1] < 0.1


def test_a_plan_stays_where_a_steady_one_would_cost_more_than_it_spares(child: Runner) -> None:
    found, validated, _ = child(REPLAN + STEADY.format(1, 1, 0.0))
    assert validated
    assert len(set(costs(found))) == 1


def test_a_program_that_empties_the_cache_itself_keeps_its_plan(child: Runner) -> None:
    found, validated, _ = child(REPLAN + STEADY.format(1, 0, 1e18))
    assert validated
    assert set(margins(found)) == {0}


ALTERNATING = """
def alternating(steady):
    trace = synth.unet(8)
    limit = int(1.3 * schedules.least(trace).nbytes)
    signatures = [Signature(trace, [], 1) for _ in range(2)]
    ladder.RETRY_NS, planning = 1e18, Planning("foresight-offline", limit)
    for signature in signatures:
        planning.learn(signature)
    found = []
    for i in range(30):
        calls = int(i >= steady and signatures[i % 2].state.margin < 0.03 * limit)
        planning.validate(signatures[i % 2], StepTook(limit, False, calls, calls))
        state = signatures[i % 2].state
        found.append((round(state.margin / limit, 2), state.validated, state.allocating))
    return found[-2:]
"""


def test_plans_of_steps_that_take_turns_are_replanned_also_once_validated(child: Runner) -> None:
    """Each gives back the allocator's cache until its plan leaves 3 % of the budget: at once, or from step 8 on."""
    found = child(REPLAN + ALTERNATING + "answer([alternating(0), alternating(8)])")
    assert found == [[[0.04, True, 0]] * 2] * 2


IN_ARENA = """
from types import SimpleNamespace
from coopsim.live import ladder
from coopsim.live.signatures import Candidate
def placed(most, least=0):  # of those that leave more, there are none; one that leaves 10 bytes of 400 has places
    search = SimpleNamespace(limit=400, leaving=lambda margin: Candidate(margin, None) if margin <= most else "none")
    found = ladder.placed(search, lambda one: 410 - one.margin, least)
    return found if isinstance(found, str) else found.margin
answer([placed(60), placed(7), placed(-1), placed(60, 30), placed(60, 62)])
"""


def test_in_an_arena_a_plan_leaves_more_until_its_requests_have_places(child: Runner) -> None:
    """Or the one that needs least."""
    assert child(IN_ARENA) == [15, 7, "none", 31, "none"]


def test_in_an_arena_a_plan_leaves_twice_as_much_after_a_step_that_ran_out_of_memory(child: Runner) -> None:
    text = """
from types import SimpleNamespace
trace = synth.chain(24)
signature, limit = Signature(trace, [], 1), int(3 * schedules.least(trace).nbytes)
planning, found = Planning("foresight-offline", limit, SimpleNamespace(needed=lambda plan: 0)), []
planning.learn(signature)
while not signature.state.stays:
    found.append(signature.state.margin / limit)
    planning.validate(signature, StepTook(limit, ran_out=True))
answer([found, planning.replans])
"""
    found, replans = child(REPLAN + text)
    assert found[0] == 0
    assert found[1] >= 0.01
    assert len(found) == replans + 1 > 2
    assert all(after >= 2 * before for before, after in pairwise(found))


def test_another_budget_is_planned_for_anew_and_plans_are_tried_again(child: Runner) -> None:
    text = """
trace = synth.chain(24)
signature, limit = Signature(trace, [], 1), int(1.5 * schedules.least(trace).nbytes)
planning = Planning("foresight-offline", limit)
planning.learn(signature)
signature.state = replace(signature.state, stays=True)
found = [signature.state.schedule.overhead, signature.state.stays]
planning.rebudget(limit, [signature])
same = signature.state.stays
planning.rebudget(2 * limit, [signature])
found += [same, signature.state.schedule.overhead, signature.state.stays]
planning.rebudget(limit // 9, [signature])
answer([*found, signature.plan, bool(signature.state.why)])
"""
    before, *states, after, finished, plan, why = child(REPLAN + text)
    assert states == [True, True]
    assert before > after
    assert (finished, plan, why) == (False, None, True)
