"""Steps in micro-batches among whole ones: what they request, from a run that divides some of its batches.

What a step frees of earlier ones, it frees by other names after a whole step than after a divided one (sections.Left).
The run that divides batches (schedule.is_divided) has both kinds after both, and so tells which names correspond.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.run.longrun.book import Book, NotRecordedError
from coopsim.run.longrun.lengths import Length
from coopsim.run.longrun.schedule import FIRST, is_divided
from coopsim.run.longrun.sections import Left, RecordedStep, Template

_Names: TypeAlias = Mapping[Left, Left]


class MicroBatches:
    """The sections of steps of a script in `times` micro-batches, and of whole ones after these.

    `whole` are the script's own steps, `book` is made of them; `divided` are those of the run that divides batches.
    Raises CoopsimError if the latter do not tell, and says why.
    """

    def __init__(self, book: Book, whole: Sequence[RecordedStep], divided: Sequence[RecordedStep], times: int) -> None:
        self.times = times
        self._whole = book
        _check(book, whole, divided, times)
        after: dict[bool, list[RecordedStep]] = {
            True: [],
            False: [],
        }  # divided steps, after divided and after whole ones
        more: list[RecordedStep] = []  # whole steps after divided ones
        for step in divided[FIRST:]:
            if is_divided(step.number):
                after[is_divided(step.number - 1)].append(step)
            elif is_divided(step.number - 1):
                more.append(step)
        slots = range(times + 1)
        self._after_whole = [_names(i, after[True], after[False]) for i in slots]
        self._after_divided = [_names(i, whole[FIRST:], more) for i in slots[:2]]
        back = [{new: old for old, new in names.items()} for names in self._after_whole]
        again = [replace(step, sections=tuple(_named(step.sections, back))) for step in after[False]]
        self._divided = Book(sorted([*after[True], *again], key=lambda step: step.number))
        if len(self._divided.axes.columns) != 1 or self._divided.left_out or self._divided.unlike:
            raise CoopsimError("their requests follow no simple rule in what ran (record more: --steps)")

    def sections(self, length: Length, step: int, *, after_divided: bool, divided: bool) -> list[Template]:
        """The sections of a step of that length. Raises CoopsimError if they are not known."""
        usual = self._whole.sections(length, step)
        if not divided:
            return _named(usual, self._after_divided) if after_divided else usual
        known = self._divided.stand_in(length)
        if known is None:
            raise NotRecordedError(f"length {length[0]} is longer than those that ran in micro-batches")
        first, *others = (replace(template, empties=()) for template in self._divided.sections(known, step))
        if usual[0].empties not in ((), (0,)) and not np.array_equal(usual[0].takes, first.takes):
            raise CoopsimError("where they empty the cache is not known")
        sections = [replace(first, empties=usual[0].empties), *others]
        return sections if after_divided else _named(sections, self._after_whole)


def _names(slot: int, steps: Iterable[RecordedStep], others: Iterable[RecordedStep]) -> dict[Left, Left]:
    """By which names `others` free what `steps` free, as sections that agree in all else tell."""
    seen = {_but_names(step.sections[slot]): step.sections[slot].lefts for step in others}
    found: dict[Left, Left] = {}
    for step in steps:
        template = step.sections[slot]
        for one, other in zip(template.lefts, seen.get(_but_names(template), ()), strict=False):
            if found.setdefault(one, other) != other:
                raise CoopsimError("what they free of earlier steps follows no simple rule")
    return found


def _but_names(template: Template) -> tuple[bytes, bytes, bytes]:
    return template.structure[:3]


def _named(sections: Sequence[Template], names: Sequence[_Names]) -> list[Template]:
    """Sections with other names for what they free."""
    try:
        return [
            replace(template, lefts=tuple(of[left] for left in template.lefts))
            for template, of in zip(sections, names, strict=True)
        ]
    except KeyError:
        raise NotRecordedError("what they free of earlier steps is not known (record more: --steps)") from None


@dataclass(frozen=True)
class Divided:
    """Steps of inputs that are longer than `above` are in micro-batches, the first ones left out."""

    by: MicroBatches
    above: int

    def divides(self, length: Length, step: int) -> bool:
        """Whether that step is in micro-batches."""
        return step > FIRST and length[0] > self.above


def _check(book: Book, whole: Sequence[RecordedStep], divided: Sequence[RecordedStep], times: int) -> None:
    """Raise CoopsimError unless the steps of the second run are those of the first, divided as asked for."""
    if len(book.axes.form) != 1:
        raise CoopsimError("the script has micro-batches of its own")
    if len(book.axes.columns) != 1:
        raise CoopsimError("not exactly one size varies")
    if any(step.marked for step in whole) or any(step.marked for step in divided):
        raise CoopsimError("the script evaluates between steps")
    if any(template.empties for step in whole for template in step.sections[1:]):
        raise CoopsimError("the script empties the cache within steps")
    parts = [len(step.shapes) for step in divided]
    if max(parts, default=0) <= 1:
        raise CoopsimError("its batches are not made by a DataLoader, or cannot be divided")
    if parts != [times if is_divided(step.number) else 1 for step in divided]:
        raise CoopsimError("a step of the script is not one batch of one DataLoader")
    for one, other in zip(whole[:FIRST], divided[:FIRST], strict=True):
        if any(not _alike(a, b) for a, b in zip(one.sections, other.sections, strict=True)):
            raise CoopsimError("the script does not repeat its first steps when it runs again")


def _alike(one: Template, other: Template) -> bool:
    return one.structure == other.structure and np.array_equal(one.sizes, other.sizes)
