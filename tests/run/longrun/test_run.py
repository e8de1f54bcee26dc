"""Steps of programs made by hand, of which some are recorded: what their replay takes is what all of them take."""

import random
from pathlib import Path

import numpy as np
import pytest

from coopsim.base.types import CoopsimError
from coopsim.run.longrun.causes import parts
from coopsim.run.longrun.lengths import Axes, given
from coopsim.run.longrun.play import PEAK_ALLOCATED, PEAK_RESERVED
from coopsim.run.longrun.recorded import STEP, RecordedSteps
from coopsim.run.longrun.run import Card, LongRun
from coopsim.run.longrun.sections import steps
from coopsim.run.longrun.verdict import judge
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import EMPTY
from tests.run.longrun.made import MIB, a_file, in_two, peaks_of_all, varying

ALL = random.Random(5).choices(range(4, 40), k=300)
KINDS = {
    "plain": {},
    "emptied caches": {"empties": 10},
    "evaluation": {"evaluates": 15},
    "evaluation in each step": {"evaluates": 1},
    "both": {"empties": 10, "evaluates": 15},
    "a leak": {"leaks": 300_000},
    "a longer tensor": {"grows": 4096},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_some_steps_say_what_all_take(kind: str, conf: str, tmp_path: Path) -> None:
    some = varying(ALL[:60], **KINDS[kind]).recorded()
    run = LongRun(some, a_file(tmp_path, ALL), None)
    played = run.play(Card(1 << 40), conf)
    assert (run.stood_in, run.book.left_out, run.book.unlike, played.amiss) == (0, 0, 0, 0)
    peaks = played.bytes.max(axis=0)
    expected = peaks_of_all(varying(ALL, **KINDS[kind]), conf)
    assert (peaks[PEAK_ALLOCATED], peaks[PEAK_RESERVED]) == expected


def test_lengths_that_were_not_recorded_follow_from_others(tmp_path: Path) -> None:
    few = [8, 12, 20, 16, 8, 12, 20, 16, 32]
    run = LongRun(varying(few).recorded(), a_file(tmp_path, few[:3] + ALL), None)
    peaks = run.endless.bytes.max(axis=0)
    assert (peaks[PEAK_ALLOCATED], peaks[PEAK_RESERVED]) == peaks_of_all(varying(few[:3] + ALL))


def test_what_does_not_follow_is_played_as_the_next_longer(tmp_path: Path) -> None:
    """Two lengths determine no square, let alone check it."""
    run = LongRun(varying([8, 12] * 5).recorded(), a_file(tmp_path, [8, 12, 8, 10, 12]), None)
    assert run.stood_in == 1
    assert run.lengths[3] == (12,)
    with pytest.raises(CoopsimError, match=r"lengths.txt:4: length 13: longer than any recorded step"):
        LongRun(varying([8, 12] * 5).recorded(), a_file(tmp_path, [8, 12, 8, 13]), None)


def test_what_follows_no_period_is_said() -> None:
    assert LongRun(varying([8, 12] * 10, empties=5).recorded(), None, 30).book.irregular == ()
    program = varying([8, 12] * 10)
    ends = [row for row, mark in program.marks if mark == STEP]
    for step in (16, 9, 6):  # the cache is emptied before these
        at = ends[step - 2]
        program.rows.insert(at, (EMPTY, 0, 0, 0))
        program.marks = [(row + (row > at), mark) for row, mark in program.marks]
    assert LongRun(program.recorded(), None, 30).book.irregular == ("empty_cache",)


def test_draws_are_of_those_recorded_and_repeat() -> None:
    some = varying(ALL[:40]).recorded()
    runs = [LongRun(some, None, 200, seed) for seed in (1, 1, 2)]
    assert runs[0].lengths == runs[1].lengths != runs[2].lengths
    assert [n for (n,) in runs[0].lengths[:40]][3:] == ALL[3:40]
    assert {n for (n,) in runs[0].lengths[40:]} <= set(ALL[3:40])


def test_memory_runs_out_at_the_step_at_which_it_does() -> None:
    """A leak of 1 MiB per step, replayed until the card is full."""
    run = LongRun(varying([8] * 12, leaks=MIB).recorded(), None, 500)
    verdict = judge(run, Card(200 * MIB), lambda _: None)
    every = varying([8] * 500, leaks=MIB)
    allocator = CachingAllocator("2.14.1", "", 200 * MIB)
    answers, _ = allocator.run(every.recorded().rows)
    failed = np.flatnonzero((every.recorded().rows[:, 0] == 0) & (answers < 0))[0]
    ends = [row for row, mark in every.marks if mark == 1]
    assert verdict.out is not None
    assert verdict.out.step == 1 + int(np.searchsorted(ends, failed, side="right"))
    assert verdict.out.cause == "leak"


@pytest.mark.parametrize(
    ("lengths", "options", "cause"),
    [([8] * 60, {"leaks": MIB}, "leak"), ([8] * 40 + [39], {}, "longer input"), (ALL, {}, "fragmentation")],
)
def test_causes_are_kept_apart(lengths: list[int], options: dict, cause: str, tmp_path: Path) -> None:
    run = LongRun(varying(lengths, **options).recorded(), None, len(lengths))
    found = parts(run)
    assert found.cause == cause
    if cause == "leak":
        assert found.kept_bytes == pytest.approx(60 * MIB, rel=0.15)
    total = found.base_bytes + found.longer_input_bytes + found.kept_bytes + found.fragmentation_bytes
    assert total == found.reserved_bytes == run.endless.bytes[:, PEAK_RESERVED].max()


def test_remedies_are_tried_by_the_same_replay(tmp_path: Path) -> None:
    run = LongRun(varying(ALL[:60]).recorded(), a_file(tmp_path, ALL), None)
    expandable = peaks_of_all(varying(ALL), "expandable_segments:True")[1]
    verdict = judge(run, Card(expandable), lambda _: None)
    assert verdict.out is not None
    tried = {one.what: one for one in verdict.tried}
    best = tried["expandable_segments:True"]
    assert best.fits
    assert best.peak_reserved_bytes == expandable
    assert verdict.replay.runs_out == verdict.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8\nlong\n", r"lengths.txt:2: long: expected the length of a step, a positive whole number"),
        ("8\n-4\n", r"lengths.txt:2: -4: expected the length"),
        ("8\n\n9\n", r"lengths.txt:2: an empty line: expected the length"),
        ("8 9\n", r"has 2 numbers per line; in the recorded steps 1 sizes vary"),
        ("8\n8 9\n", r"lengths.txt:2: 2 numbers, and 1 in the first line"),
        ("", r"lengths.txt: is empty"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(text)
    with pytest.raises(CoopsimError, match=message):
        LongRun(varying([8, 12] * 5).recorded(), path, None)


def test_too_little_was_recorded(tmp_path: Path) -> None:
    with pytest.raises(CoopsimError, match="too few steps for a replay: 4; it takes at least 5"):
        LongRun(varying([8] * 4).recorded(), None, 10)
    with pytest.raises(CoopsimError, match="the inputs of the recorded steps have one length"):
        LongRun(varying([8] * 8).recorded(), a_file(tmp_path, [8, 9]), None)
    with pytest.raises(CoopsimError, match=r"has 2 lines; 9 steps are asked for"):
        LongRun(varying([8, 9] * 8).recorded(), a_file(tmp_path, [8, 9]), 9)


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = varying([8, 12] * 3).recorded()
    made.save(str(tmp_path / "a.npz"))
    found = RecordedSteps.load(tmp_path / "a.npz")
    assert np.array_equal(found.rows, made.rows)
    assert np.array_equal(found.marks, made.marks)
    assert found.shapes == made.shapes


def test_a_line_of_the_file_may_be_of_all_micro_batches(tmp_path: Path) -> None:
    """Of micro-batches whose lengths differ from each other, and of such that have one length."""
    apart = in_two(ALL[:60])
    alike = Axes.of(steps(apart.recorded()))
    assert alike.of_slot == ((0,), (0,))
    assert given(a_file(tmp_path, [7, 9]), alike) == [(7,), (9,)]
    own = [((2, a),) if i % 2 == 0 else ((2, a + i * i % 7),) for i, ((_, a),) in enumerate(apart.shapes)]
    recorded = apart.recorded()
    axes = Axes.of(steps(RecordedSteps(recorded.rows, recorded.marks, tuple(own), "", recorded.torch)))
    assert axes.of_slot == ((0,), (1,))
    assert given(a_file(tmp_path, [7, 9]), axes) == [(7, 7), (9, 9)]
