"""Which signature the next step is expected to be of."""

from typing import Any, cast

from coopsim.live.signatures import KnownSignatures, Signature
from coopsim.trace import Trace


def kind(*, first: bool = False) -> Signature:
    return Signature(cast("Trace", None), cast("list[Any]", []), 1, first)


def test_after_two_more_steps_of_a_kind_the_next_is_expected_to_be_of_it() -> None:
    known, steady = KnownSignatures(), kind()
    known.add(steady)  # it was recorded
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
