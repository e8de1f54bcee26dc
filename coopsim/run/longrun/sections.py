"""Cut recorded requests into steps and their sections, and make each a template that can be played at another place.

A step has a section before its first forward pass (*before*: what ends the last step, the batch that is loaded,
evaluation), and one for each of its micro-batches. A section frees what it allocated itself, or what an earlier one
left. The latter is named by where it came from: so many steps ago, from which section, the how manieth from the end of
what that one left. Two steps of one structure can so be played in any order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coopsim.run.longrun.recorded import EVALUATION, GENERATION, STEP, TRAIN, Ints, RecordedSteps, Shapes
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, EMPTY, FREE, KIND, NUMBER, STREAM


class Left(NamedTuple):
    """What an earlier section left: `age` steps ago, section `slot` of that step, number `at` from the end, from 1."""

    age: int
    slot: int
    at: int


@dataclass(frozen=True)
class Template:
    """The requests of a section, without calls of empty_cache.

    takes: for each request whether it allocates. what: of an allocation its number within the section, from 0; of a
    free that of what it frees, or -1 - i for entry i of `lefts`. sizes, streams: of each allocation, in bytes. leaves:
    the allocations that are there at its end, in order. empties: before which requests the cache is emptied.
    """

    takes: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    what: Ints
    sizes: Ints
    streams: Ints
    lefts: tuple[Left, ...]
    leaves: Ints
    empties: tuple[int, ...] = ()

    @cached_property
    def structure(self) -> tuple[bytes, bytes, bytes, tuple[Left, ...]]:
        """Everything but the sizes: sections that agree in it can stand for each other."""
        return self.takes.tobytes(), self.what.tobytes(), self.streams.tobytes(), self.lefts


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step, numbered from 1: its sections, and the shapes of the inputs of each micro-batch.

    marked: whether it evaluates or generates before it trains.
    """

    number: int
    sections: tuple[Template, ...]
    shapes: tuple[Shapes, ...]
    marked: bool


def steps(recorded: RecordedSteps) -> list[RecordedStep]:
    """The steps that ended, in order."""
    bounds, of_step, shapes, marked = _bounds(recorded)
    templates = list(_templates(recorded.rows, bounds, of_step))
    found: list[RecordedStep] = []
    at = 0
    for number, (of_this, evaluates) in enumerate(zip(shapes, marked, strict=True), 1):
        sections = templates[at : at + 1 + len(of_this)]
        at += len(sections)
        found.append(RecordedStep(number, tuple(sections), tuple(of_this), evaluates))
    return found


def _bounds(recorded: RecordedSteps) -> tuple[list[int], list[tuple[int, int]], list[list[Shapes]], list[bool]]:
    """Rows at which sections begin, and where the last ends; the (step, slot) of each; per step: shapes, evaluation."""
    bounds, of_step = [0], [(1, 0)]
    shapes: list[list[Shapes]] = []
    marked: list[bool] = []
    now: list[Shapes] = []
    evaluates, trains = False, 0
    for row, mark in recorded.marks.tolist():
        if mark == TRAIN:
            now.append(recorded.shapes[trains])
            trains += 1
            bounds.append(row)
            of_step.append((len(shapes) + 1, len(now)))
        elif mark == STEP:
            shapes.append(now)
            marked.append(evaluates)
            now, evaluates = [], False
            bounds.append(row)
            of_step.append((len(shapes) + 1, 0))
        elif mark in (EVALUATION, GENERATION):
            evaluates = True
    while of_step and of_step[-1][0] > len(shapes):  # of a step that did not end; its first bound ends the last one
        of_step.pop()
    return bounds[: len(of_step) + 1], of_step, shapes, marked


def _templates(rows: Ints, bounds: list[int], of_step: list[tuple[int, int]]) -> Iterator[Template]:
    """The sections between consecutive bounds; `of_step`: the step and the slot of each."""
    takes = int((rows[:, KIND] == ALLOCATE).sum())
    born = np.full(takes, -1, np.int64)  # by allocation number: the section
    place = np.full(takes, -1, np.int64)  # and its number within it; once that has ended, from the end of what it left
    for section, (step, _) in enumerate(of_step):
        part = rows[bounds[section] : bounds[section + 1]]
        empty = part[:, KIND] == EMPTY
        empties = tuple((np.flatnonzero(empty) - np.arange(int(empty.sum()))).tolist())
        part = part[~empty]
        numbers, is_taken = part[:, NUMBER], part[:, KIND] == ALLOCATE
        taken = numbers[is_taken]
        born[taken], place[taken] = section, np.arange(len(taken))
        foreign = ~is_taken & (born[numbers] != section)
        what = place[numbers].copy()
        lefts = []
        for i in np.flatnonzero(foreign).tolist():
            from_step, from_slot = of_step[born[numbers[i]]]
            lefts.append(Left(step - from_step, from_slot, int(place[numbers[i]])))
            what[i] = -len(lefts)
        freed = np.zeros(len(taken), np.bool_)
        freed[what[~is_taken & ~foreign]] = True
        leaves = np.flatnonzero(~freed)
        place[taken[leaves]] = np.arange(len(leaves), 0, -1)
        assert set(np.unique(part[:, KIND])) <= {ALLOCATE, FREE}
        amounts = part[is_taken]
        yield Template(is_taken, what, amounts[:, AMOUNT], amounts[:, STREAM], tuple(lefts), leaves, empties)
