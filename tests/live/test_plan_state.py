"""The life of a plan, from state to state; how steps are judged; which signature the next step is expected to be of."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from coopsim import live as live_package
from coopsim.live.ladder import Judgement, StepTook, judge
from coopsim.live.plan import Plan
from coopsim.live.signatures import (
    Candidate,
    Failure,
    Followed,
    KnownSignatures,
    Last,
    OnTrial,
    PlanState,
    Signature,
    Valid,
)
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

SCHEDULE, PLAN, OTHER = cast("Schedule", object()), cast("Plan", object()), cast("Plan", object())
FIRST = Candidate(1, SCHEDULE)
TRIAL = OnTrial(FIRST, PLAN, (Failure(FIRST),), kept=2, allocating=1)
VALID = Valid(FIRST, PLAN, kept=2, allocating=1)
LAST = Last(FIRST, PLAN, kept=2, allocating=1)


@pytest.mark.parametrize(("then", "state"), [
    (TRIAL.keep(4), replace(TRIAL, kept=3)),
    (TRIAL.keep(3), replace(TRIAL, kept=3, allocating=0)),
    (TRIAL.allocate(), replace(TRIAL, kept=0, allocating=2)),
    (TRIAL.validate(), VALID),
    (TRIAL.finish(), LAST),
    (VALID.allocate(), replace(VALID, kept=0, allocating=2)),
    (VALID.finish(), replace(LAST, validated=True)),
    (LAST.validate(), replace(LAST, validated=True)),
])  # fmt: skip
def test_a_plan_goes_from_state_to_state(then: PlanState, state: PlanState) -> None:
    assert then == state
    assert type(then) is type(state)


def test_planning_alone_moves_a_plan_on() -> None:
    live = Path(live_package.__file__).parent
    assert [file.name for file in live.rglob("*.py") if ".move_on(" in file.read_text()] == ["planning.py"]


@pytest.mark.parametrize(("state", "took", "judgement"), [
    (TRIAL, StepTook(100), Judgement.KEPT),
    (TRIAL, StepTook(101), Judgement.EXCEEDED),
    (LAST, StepTook(9, ran_out=True), Judgement.EXCEEDED),
    (TRIAL, StepTook(9, calls=2), Judgement.ALLOCATED),
    (VALID, StepTook(9, calls=2, retries=1), Judgement.ALLOCATED),
    (LAST, StepTook(9, calls=2, retries=1), Judgement.ALLOCATED),
    (replace(LAST, allocating=3), StepTook(9, retries=1), Judgement.ALLOCATED),  # no other plan is sought
    (replace(TRIAL, allocating=3), StepTook(9, calls=2), Judgement.KEPT),  # the program's own
    (replace(TRIAL, allocating=3), StepTook(9, calls=2, retries=1), Judgement.UNSTEADY),
    (replace(VALID, allocating=3), StepTook(9, retries=1), Judgement.UNSTEADY),
])  # fmt: skip
def test_a_step_is_judged(state: Followed, took: StepTook, judgement: Judgement) -> None:
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
