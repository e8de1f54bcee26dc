"""The life of a plan, from state to state; how steps are judged; which signature the next step is expected to be of."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from coopsim import live as live_package
from coopsim.live.plan import Plan
from coopsim.live.plan_state import (
    Asked,
    Candidate,
    Failure,
    Finished,
    Followed,
    Judged,
    OnTrial,
    PlanState,
    PlanTrials,
    Stored,
    Unplanned,
    Validated,
)
from coopsim.live.replanning import Judgement, StepTook, judge
from coopsim.live.signatures import KnownSignatures, Signature
from coopsim.schedule import Schedule
from coopsim.trace import Trace

SCHEDULE, PLAN, OTHER = cast("Schedule", object()), cast("Plan", object()), cast("Plan", object())


def candidate(margin: int) -> Candidate:
    return Candidate(margin, SCHEDULE)


FIRST, SECOND = candidate(1), candidate(2)
TRIED = PlanTrials(2, (Failure(False, 3, FIRST),), (SECOND,), 9)
TRIAL = OnTrial(FIRST, PLAN, TRIED, kept=2, allocating=1)
VALIDATED = Validated(FIRST, PLAN, TRIED.forget(), kept=2, allocating=1)
FINISHED = Finished(FIRST, PLAN, kept=2, allocating=1)


@pytest.mark.parametrize(("then", "state"), [
    (Unplanned(why="why").ask(), Asked()),
    (Asked().refuse("too much"), Unplanned(why="too much")),
    (Asked().try_out(SECOND, PLAN, 7), OnTrial(SECOND, PLAN, PlanTrials(infeasible_margin=7))),
    (Unplanned(why="first").store(SECOND), Stored(margin=2, schedule=SCHEDULE)),
    (Stored(margin=2, schedule=SCHEDULE).follow(SECOND, PLAN), OnTrial(SECOND, PLAN)),
    (Stored(margin=2, schedule=SCHEDULE, finished=True).follow(SECOND, PLAN), Finished(SECOND, PLAN)),
    (TRIAL.keep(4), replace(TRIAL, kept=3)),
    (TRIAL.keep(3), replace(TRIAL, kept=3, allocating=0)),
    (TRIAL.allocate(), replace(TRIAL, kept=0, allocating=2)),
    (TRIAL.validate(OTHER), Validated(FIRST, OTHER, PlanTrials(2, (), (), 9), kept=2, allocating=1)),
    (TRIAL.retry(SECOND, OTHER, PlanTrials(3)), OnTrial(SECOND, OTHER, PlanTrials(3))),
    (TRIAL.improve(SECOND, OTHER), OnTrial(SECOND, OTHER, TRIED)),
    (TRIAL.remake(OTHER), replace(TRIAL, plan=OTHER)),
    (TRIAL.go_back(SECOND, OTHER), Finished(SECOND, OTHER)),
    (TRIAL.finish(), FINISHED),
    (TRIAL.refuse("no room"), Unplanned(margin=1, why="no room")),
    (VALIDATED.keep(3), replace(VALIDATED, kept=3, allocating=0)),
    (VALIDATED.allocate(), replace(VALIDATED, kept=0, allocating=2)),
    (VALIDATED.retry(SECOND, OTHER, TRIED), OnTrial(SECOND, OTHER, TRIED)),
    (VALIDATED.improve(SECOND, OTHER), OnTrial(SECOND, OTHER, TRIED.forget())),
    (VALIDATED.finish(), replace(FINISHED, validated=True)),
    (FINISHED.validate(OTHER), replace(FINISHED, plan=OTHER, validated=True)),
    (FINISHED.improve(SECOND, OTHER), Finished(SECOND, OTHER)),
    (FINISHED.drop(), Unplanned(margin=1)),  # the budget is another one
])  # fmt: skip
def test_a_plan_goes_from_state_to_state(then: PlanState, state: PlanState) -> None:
    assert then == state
    assert isinstance(then, Followed) is (then.plan is not None)
    assert (then.schedule is None) is isinstance(then, Unplanned | Asked)


@pytest.mark.parametrize(("state", "no"), [
    (Unplanned(), "keep validate finish retry improve follow"),
    (Stored(schedule=SCHEDULE), "keep validate finish retry improve"),
    (TRIAL, "ask store try_out follow"),
    (VALIDATED, "ask store try_out follow validate"),
    (FINISHED, "ask store try_out follow retry go_back finish"),
])  # fmt: skip
def test_there_is_no_other_way(state: PlanState, no: str) -> None:
    assert not [name for name in no.split() if hasattr(state, name)]


def test_planning_alone_moves_a_plan_on() -> None:
    live = Path(live_package.__file__).parent
    assert [file.name for file in live.rglob("*.py") if ".move_on(" in file.read_text()] == ["planning.py"]


def test_after_steps_that_ran_out_of_memory_or_were_not_steady_only_larger_margins_are_left() -> None:
    tried = PlanTrials(waiting=(candidate(0), candidate(5), candidate(9)))
    own = candidate(5)
    for failure, left in ((Failure(False, 3, own), 3), (Failure(True, 0, own), 1), (Failure(False, 0, own, 2), 1)):
        found = tried.replan().fail(failure)
        assert (found.replans, found.failures, len(found.waiting)) == (1, (failure,), left)


@pytest.mark.parametrize(("state", "took", "judgement"), [
    (TRIAL, StepTook(100), Judgement.KEPT),
    (TRIAL, StepTook(101), Judgement.EXCEEDED),
    (FINISHED, StepTook(9, ran_out=True), Judgement.EXCEEDED),
    (TRIAL, StepTook(9, calls=2), Judgement.ALLOCATED),
    (VALIDATED, StepTook(9, calls=2, retries=1), Judgement.ALLOCATED),
    (FINISHED, StepTook(9, calls=2, retries=1), Judgement.ALLOCATED),
    (replace(FINISHED, allocating=3), StepTook(9, retries=1), Judgement.ALLOCATED),  # no other plan is sought
    (replace(TRIAL, allocating=3), StepTook(9, calls=2), Judgement.KEPT),  # the program's own
    (replace(TRIAL, allocating=3), StepTook(9, calls=2, retries=1), Judgement.UNSTEADY),
    (replace(VALIDATED, allocating=3), StepTook(9, retries=1), Judgement.UNSTEADY),
])  # fmt: skip
def test_a_step_is_judged(state: Judged, took: StepTook, judgement: Judgement) -> None:
    assert judge(state, took, 100, 3, once=False) is judgement
    assert judge(state, took, 100, 3, once=True) in (Judgement.KEPT, Judgement.EXCEEDED)


def kind(*, first: bool = False) -> Signature:
    return Signature(cast("Trace", None), cast("list[Any]", []), 1, 0, first)


def test_after_two_more_steps_of_a_kind_the_next_is_expected_to_be_of_it() -> None:
    known, steady = KnownSignatures(), kind()
    known.add(steady)
    known.last = steady  # it was recorded
    assert known.expected is None
    known.followed(steady)
    assert known.expected is None
    known.followed(steady)
    assert known.expected is steady
    known.failed()
    assert known.expected is None


def test_once_data_have_grown_the_first_ops_of_every_step_tell_its_kind() -> None:
    known, steady = KnownSignatures(), kind()
    known.last = steady
    known.deviated(decide=True)
    for _ in range(9):
        known.followed(steady)
    assert known.expected is None


def test_the_first_kind_is_a_candidate_for_the_first_step_alone_and_none_are_after_a_deviation() -> None:
    known, first, steady, other = KnownSignatures(), kind(first=True), kind(), kind()
    for each in (steady, first, other):
        known.add(each)
    known.last = other
    assert known.candidates(first_step=True) == [first, other, steady]
    assert known.candidates(first_step=False) == [other, steady]
    known.deviated(decide=False)
    assert known.candidates(first_step=False) == []
