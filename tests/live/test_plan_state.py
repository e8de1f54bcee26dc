"""The life of a plan: adopted, validated or replaced; and which step signature the next one is expected to be."""

from types import SimpleNamespace
from typing import Any, cast

from coopsim.live.plan_state import Candidate, PlanState
from coopsim.live.signatures import KnownSignatures, Signature
from coopsim.schedule import Schedule
from coopsim.trace import Trace


def candidate(margin: int) -> Candidate:
    return Candidate(margin, cast("Schedule", object()))


def test_a_plan_is_proven_and_its_trials_are_forgotten() -> None:
    state = PlanState(why="no schedule was found that fits")
    state.candidates = [candidate(0), candidate(5), candidate(9)]
    state.adopt(state.candidates[1])
    assert (state.candidate, state.why) == (state.candidates[1], "")
    state.fail(3, ran_out=False)
    assert [other.margin for other in state.candidates] == [0, 5, 9]
    state.keep(3)
    state.validate()
    assert state.validated
    assert state.failures == state.candidates == []


def test_after_a_step_that_ran_out_of_memory_only_larger_margins_are_left() -> None:
    state = PlanState()
    state.candidates = [candidate(0), candidate(5), candidate(9)]
    state.adopt(state.candidates[1])
    state.fail(0, ran_out=True)
    assert [other.margin for other in state.candidates] == [9]
    assert [failure.candidate.margin for failure in state.failures] == [5]


def test_a_schedule_on_trial_has_yet_to_be_proven_and_one_that_is_restored_has_not() -> None:
    state = PlanState()
    state.adopt(first := candidate(1))
    state.keep(3)
    state.validate()
    state.restore(first)
    assert (state.validated, state.kept, state.finished) == (True, 1, True)
    state.repair()
    state.restart()  # the budget is another one
    assert (state.finished, state.repairs) == (False, 0)
    state.adopt(candidate(2))
    assert (state.validated, state.kept) == (False, 0)


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


def test_a_step_that_numbers_its_storages_otherwise_is_recognised() -> None:
    """What it has found is kept under the numbers of the kind, which plans name."""

    def entry(inputs: list[int]) -> Any:
        return SimpleNamespace(func="mul", shapes=((), (), None), inputs=inputs)

    known, steady = KnownSignatures(), kind()
    steady.op_log = [entry([0, 1]), entry([1, 5])]
    known.add(steady)
    found: dict[int, Any] = {3: "weight", 2: "moment"}
    assert known.recognise([entry([3, 2]), entry([2, 7])], found)
    assert steady.stays == {0: "weight", 1: "moment"}
