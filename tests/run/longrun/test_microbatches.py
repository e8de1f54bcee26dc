"""Micro-batches for the longest inputs: what their replay takes is what a program takes that has them."""

import random
from pathlib import Path

import pytest

from coopsim.base.types import CoopsimError
from coopsim.run.longrun.lengths import Axes, given
from coopsim.run.longrun.microbatches import Divided
from coopsim.run.longrun.play import PEAK_ALLOCATED, PEAK_RESERVED
from coopsim.run.longrun.recorded import RecordedSteps
from coopsim.run.longrun.remedies import in_microbatches
from coopsim.run.longrun.run import Card, LongRun
from coopsim.run.longrun.schedule import is_divided
from coopsim.run.longrun.sections import steps
from coopsim.run.longrun.verdict import judge
from tests.run.longrun.made import MIB, a_file, in_two, peaks_of_all, varying

ALL = [8, 12, 8, *random.Random(5).choices(range(4, 40), k=297)]
ABOVE = 25


def never(_step: int, _length: int) -> bool:
    return False


def halved(of: int = 2, lengths: list[int] = ALL[:60], empties: int = 0) -> RecordedSteps:
    assert of == 2
    return in_two(lengths, lambda step, _: is_divided(step), empties=empties).recorded()


@pytest.mark.parametrize("empties", [0, 10])
def test_some_steps_say_what_all_take(empties: int, tmp_path: Path) -> None:
    run = LongRun(in_two(ALL[:60], never, empties=empties).recorded(), a_file(tmp_path, ALL), None)
    of = run.in_microbatches(halved(empties=empties), 2)
    played = run.play(Card(1 << 40), divided=Divided(of, ABOVE))
    assert played.amiss == 0
    peaks = played.bytes.max(axis=0)
    every = in_two(ALL, lambda step, length: step > 3 and length > ABOVE, empties=empties)
    assert (peaks[PEAK_ALLOCATED], peaks[PEAK_RESERVED]) == peaks_of_all(every)
    assert peaks[PEAK_ALLOCATED] < run.endless.bytes[:, PEAK_ALLOCATED].max()


def test_as_few_steps_as_will_do_are_divided(tmp_path: Path) -> None:
    run = LongRun(in_two(ALL[:60], never).recorded(), a_file(tmp_path, ALL), None)
    most = int(run.endless.bytes[:, PEAK_ALLOCATED].max())
    verdict = judge(run, Card(most * 3 // 4), lambda _: None, again=halved)
    assert verdict.out is not None
    assert verdict.out.cause == "longer input"
    [found] = [one for one in verdict.tried if one.kind == "micro_batches"]
    assert found.fits
    above = int(found.what.partition("longer than ")[2].split()[0])
    assert found.what == f"2 micro-batches for inputs longer than {above} ({sum(n > above for n in ALL[3:])} steps)"
    of = run.in_microbatches(halved(), 2)
    assert not run.play(verdict.card, divided=Divided(of, above)).failed
    assert run.play(verdict.card, divided=Divided(of, above + 1)).failed
    assert verdict.not_tried == ("checkpointing (coopsim fit tries it)",)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (in_two(ALL[:60], never), "not made by a DataLoader"),
        (in_two(ALL[:60], lambda step, _: step > 30), "not one batch of one DataLoader"),
        (in_two([9, *ALL[1:60]], lambda step, _: is_divided(step)), "does not repeat its first steps"),
    ],
)
def test_why_they_are_not_tried(second: object, why: str, tmp_path: Path) -> None:
    run = LongRun(in_two(ALL[:60], never).recorded(), a_file(tmp_path, ALL), None)
    with pytest.raises(CoopsimError, match=why):
        list(in_microbatches(run, Card(200 * MIB), lambda _: second.recorded()))  # type: ignore[attr-defined]
    said = judge(run, Card(100 * MIB), lambda _: None, again=lambda _: second.recorded()).not_tried  # type: ignore[attr-defined]
    assert said[0].startswith("micro-batches for the longest: ")
    assert why in said[0]


def test_scripts_that_evaluate_are_left_out(tmp_path: Path) -> None:
    run = LongRun(varying(ALL[:60], evaluates=15).recorded(), a_file(tmp_path, ALL), None)
    with pytest.raises(CoopsimError, match="the script evaluates between steps"):
        run.in_microbatches(halved(), 2)


def test_a_line_of_the_file_may_be_of_all_micro_batches(tmp_path: Path) -> None:
    """Of micro-batches whose lengths differ from each other, and of such that have one length."""
    apart = in_two(ALL[:60], lambda _, length: length > 0)
    alike = Axes.of(steps(apart.recorded()))
    assert alike.of_slot == ((0,), (0,))
    assert given(a_file(tmp_path, [7, 9]), alike) == [(7,), (9,)]
    own = [((2, a),) if i % 2 == 0 else ((2, a + i * i % 7),) for i, ((_, a),) in enumerate(apart.shapes)]
    recorded = apart.recorded()
    axes = Axes.of(steps(RecordedSteps(recorded.rows, recorded.marks, tuple(own), "", recorded.torch)))
    assert axes.of_slot == ((0,), (1,))
    assert given(a_file(tmp_path, [7, 9]), axes) == [(7, 7), (9, 9)]
