"""The template of a section of any length, at any step: as recorded, or interpolated, or refused."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.run.longrun.interpolate import Form, forms, nearest
from coopsim.run.longrun.lengths import Axes, Length
from coopsim.run.longrun.schedule import FIRST, Every, every
from coopsim.run.longrun.sections import RecordedStep, Template

Structure: TypeAlias = tuple[bytes, bytes, bytes, tuple[tuple[int, int, int], ...]]

_ESTIMATED = 0.02  #: the part of a section's bytes that may be estimated, of a length beyond all recorded ones
_RARE = 3  #: how often a section of another structure must recur to be expected again


class NotRecordedError(CoopsimError):
    """There is no step of that length, and none can be interpolated."""


class Book:
    """The sections of recorded steps, by their place in a step (`slot`) and by length.
    `left_out` counts the recorded sections of a structure that neither their length nor their step explains, `unlike`
    those whose sizes these do not explain.
    """

    def __init__(self, steps: Sequence[RecordedStep]) -> None:
        later = [step for step in steps if step.number > FIRST]
        self.axes = Axes.of(later)
        self.slots = 1 + len(self.axes.form)
        self.lengths: dict[int, Length] = {}  #: of the recorded steps, by number
        for step in later:
            length = self.axes.length(step)
            if length is not None:
                self.lengths[step.number] = length
        usual = [step for step in later if step.number in self.lengths]
        if all(step.marked for step in usual):  # as where each step samples first: that is part of the step
            usual = [replace(step, marked=False) for step in usual]
        if len(usual) < 2:
            raise CoopsimError(f"too few steps for a replay: at least {FIRST + 2} with inputs of one form are needed")
        end = steps[-1].number
        self._of = [_Slot(slot, usual, self.axes, self.lengths, end) for slot in range(self.slots)]
        self.left_out = sum(slot.left_out for slot in self._of)
        self.unlike = sum(slot.unlike for slot in self._of)
        marked = [step for step in usual if step.marked]
        self.evaluates = every([step.number for step in marked], FIRST + 1, end, 1) if marked else None
        self._stand_ins: dict[Length, Length | None] = {}
        self._evaluations = [(self.lengths[step.number], step.sections) for step in marked]

    @property
    def irregular(self) -> tuple[str, ...]:
        """What the script does at steps that follow no period, so that the replay leaves it out."""
        evaluates = bool(self._evaluations) and self.evaluates is None
        empties = any(slot.emptied and slot.empties is None for slot in self._of)
        return ("evaluation",) * evaluates + ("empty_cache",) * empties

    @property
    def empties(self) -> Every | None:
        """When the script empties the cache; None if it does not, or irregularly."""
        return next((slot.empties for slot in self._of if slot.empties), None)

    @property
    def known(self) -> list[Length]:
        """The recorded lengths, without repetition, in order."""
        return sorted(set(self.lengths.values()))

    def stand_in(self, length: Length) -> Length | None:
        """The length by which one is played: itself, or, if it cannot be known, the next longer one that can be.

        None if there is none that was recorded and is longer in every part.
        """
        if length not in self._stand_ins:
            longer = [one for one in self.known if all(a >= b for a, b in zip(one, length, strict=True))]
            playable = (one for one in (length, *sorted(longer, key=sum)) if self._is_playable(one))
            self._stand_ins[length] = next(playable, None)
        return self._stand_ins[length]

    def _is_playable(self, length: Length) -> bool:
        try:
            self._usual(length, 0)
        except NotRecordedError:
            return False
        return True

    def is_estimated(self, length: Length) -> bool:
        """Whether a small part of what a step of that length takes is estimated, as it is beyond all recorded ones."""
        parts = ((slot, self.axes.of_section(length, i)) for i, slot in enumerate(self._of))
        return any(part in slot.estimated for slot, part in parts)

    def sections(self, length: Length, step: int) -> list[Template]:
        """The sections of a step of that length. Raises NotRecordedError."""
        found = self._usual(length, step)
        if self.evaluates is not None and self.evaluates.at(step):
            turn = (step - self.evaluates.first) // self.evaluates.period
            of, recorded = self._evaluations[turn] if turn < len(self._evaluations) else self._again(turn)
            before = self._of[0].loads(recorded[0], self.axes.of_section(of, 0), found[0])
            return [
                before,
                *(self._of[i].after_evaluation(recorded[i], of == length, found[i]) for i in range(1, len(found))),
            ]
        return found

    def _again(self, turn: int) -> tuple[Length, tuple[Template, ...]]:
        """A recorded evaluation for one that was not: of those that are like the last, as the first left nothing."""
        last = self._evaluations[-1][1][0].structure
        alike = [one for one in self._evaluations if one[1][0].structure == last]
        return alike[turn % len(alike)]

    def _usual(self, length: Length, step: int) -> list[Template]:
        return [slot.at(self.axes.of_section(length, i), step) for i, slot in enumerate(self._of)]


class _Slot:
    """The sections at one place of a step."""

    def __init__(
        self, slot: int, steps: Sequence[RecordedStep], axes: Axes, lengths: dict[int, Length], end: int
    ) -> None:
        self._by: dict[Structure, dict[Length, Template]] = defaultdict(dict)
        seen: dict[Structure, list[int]] = defaultdict(list)
        counts: dict[Length, Counter[Structure]] = defaultdict(Counter)
        usual = [step for step in steps if not (step.marked and slot == 0)]
        self._numbered: dict[Structure, dict[Length, Template]] = defaultdict(dict)  # by length and step
        for step in usual:
            template, key = step.sections[slot], axes.of_section(lengths[step.number], slot)
            self._by[template.structure].setdefault(key, template)
            self._numbered[template.structure][*key, step.number] = template
            seen[template.structure].append(step.number)
            counts[key][template.structure] += 1
        main = max(seen, key=lambda one: len(seen[one])) if seen else None
        self._recurs: list[tuple[Every, Structure]] = []
        for structure, numbers in seen.items():
            when = every(numbers, FIRST + 1, end, _RARE)
            if structure != main and when is not None and when.period > 1:
                self._recurs.append((when, structure))
        rare = {structure for _, structure in self._recurs}
        self._usual: dict[Length, Structure] = {}
        self.left_out = self.unlike = 0
        for key, of in counts.items():
            plain = [(n, structure == main, structure) for structure, n in of.items() if structure not in rare]
            if plain:
                self._usual[key] = max(plain, key=lambda one: one[:2])[2]
                self.left_out += sum(n for n, _, structure in plain if structure != self._usual[key])
        self._forms: dict[Structure, list[Form | None]] = {}
        self._made: dict[tuple[Structure, Length], Template] = {}
        self.estimated: set[Length] = set()  #: lengths beyond all recorded ones, of which a part is estimated
        self._by_step = {structure: self._follow_step(structure) for structure in self._by}
        self.emptied = [step.number for step in steps if step.sections[slot].empties]
        self.empties = every(self.emptied, FIRST + 1, end) if self.emptied else None
        self._emptied = next((step.sections[slot].empties for step in steps if step.sections[slot].empties), ())

    def at(self, key: Length, step: int) -> Template:
        """The section of that length at that step."""
        structure = next((s for when, s in self._recurs if when.at(step)), None)
        try:
            found = self._numbered_or(structure, key, step) if structure is not None else None
        except NotRecordedError:
            found = None
        found = found or self._numbered_or(self._structure(key), key, step)
        empties = self._emptied if self.empties is not None and self.empties.at(step) else ()
        return replace(found, empties=empties) if empties != found.empties else found

    def loads(self, evaluates: Template, of: Length, usual: Template) -> Template:
        """A section that evaluates, recorded before a step of length `of`, before the step of another one.

        The allocations at its end are taken to load the batch, if they are those of a usual section of length `of`.
        """
        try:
            recorded = self._template(self._structure(of), of)
        except NotRecordedError:
            return evaluates
        n = len(recorded.sizes)
        if not n or not np.array_equal(evaluates.sizes[-n:], recorded.sizes):
            return evaluates
        return replace(evaluates, sizes=np.concatenate([evaluates.sizes[:-n], usual.sizes]))

    def after_evaluation(self, recorded: Template, same_length: bool, usual: Template) -> Template:
        """The section that follows an evaluation: it may free what that left."""
        if recorded.structure == usual.structure:
            return usual
        if same_length:
            return recorded
        more = [left for left in recorded.lefts if left not in usual.lefts]
        codes = -1 - len(usual.lefts) - np.arange(len(more))
        return replace(
            usual,
            takes=np.concatenate([np.zeros(len(more), np.bool_), usual.takes]),
            what=np.concatenate([codes, usual.what]),
            lefts=(*usual.lefts, *more),
        )

    def _structure(self, key: Length) -> Structure:
        """That of sections of a length: as recorded; that of all; of those that leave the same rest; of the nearest."""
        if key in self._usual:
            return self._usual[key]
        for modulus in (1, 2, 4, 8, 16, 32, 64, 128):
            of: dict[Length, set[Structure]] = defaultdict(set)
            for other, structure in self._usual.items():
                of[tuple(n % modulus for n in other)].add(structure)
            if all(len(structures) == 1 for structures in of.values()):
                found = of.get(tuple(n % modulus for n in key))
                if found:
                    return next(iter(found))
        if len(key) == 1:
            below, above = (
                max((k for k in self._usual if k < key), default=None),
                min((k for k in self._usual if k > key), default=None),
            )
            near = {self._usual[k] for k in (below, above) if k is not None}
            if len(near) == 1:
                return near.pop()
        raise NotRecordedError(f"{_said(key)}: steps of other lengths make other requests; record one of that length")

    def _follow_step(self, structure: Structure) -> list[Form] | None:
        """The forms by which sizes follow from the number of the step, as of what grows; None if they do not."""
        numbered, by_length = self._numbered[structure], self._by[structure]
        if all(np.array_equal(t.sizes, by_length[key[:-1]].sizes) for key, t in numbered.items()):
            return None
        self.unlike += sum(not np.array_equal(t.sizes, by_length[key[:-1]].sizes) for key, t in numbered.items())
        found = forms(list(numbered), np.array([t.sizes for t in numbered.values()]))
        whole = [form for form in found if form is not None]
        if len(whole) < len(found):
            return None
        self.unlike = 0
        return whole

    def _numbered_or(self, structure: Structure, key: Length, step: int) -> Template:
        of = self._by_step[structure]
        if of is None:
            return self._template(structure, key)
        sizes = [form.at((*key, step)) for form in of]
        if None in sizes:
            return self._template(structure, key)
        some = next(iter(self._by[structure].values()))
        return replace(some, sizes=np.array(sizes, np.int64), empties=())

    def _template(self, structure: Structure, key: Length) -> Template:
        recorded = self._by[structure]
        if key in recorded:
            return recorded[key]
        if (structure, key) not in self._made:
            if structure not in self._forms:
                lengths = list(recorded)
                self._forms[structure] = forms(lengths, np.array([recorded[k].sizes for k in lengths]))
            sizes = [form.at(key) if form else None for form in self._forms[structure]]
            if None in sizes:
                sizes = self._nearby(recorded, key, sizes)
            if None in sizes:
                sizes = _beyond(recorded, key, sizes)
                self.estimated.add(key)
            whole = [n for n in sizes if n is not None]
            if len(whole) < len(sizes):
                raise NotRecordedError(
                    f"{_said(key)}: {len(sizes) - len(whole)} of {len(sizes)} requests follow no simple rule in the "
                    f"{len(recorded)} lengths recorded; record a step of that length"
                )
            some = next(iter(recorded.values()))
            self._made[structure, key] = replace(some, sizes=np.array(whole, np.int64), empties=())
        return self._made[structure, key]

    def _nearby(self, recorded: dict[Length, Template], key: Length, sizes: list[int | None]) -> list[int | None]:
        """The same with what no form is right for everywhere, by forms that are right for the nearest lengths."""
        lengths = list(recorded)
        near = [lengths[i] for i in nearest(key, lengths)]
        if not near:
            return sizes
        lacking = [i for i, n in enumerate(sizes) if n is None]
        of = forms(near, np.array([recorded[k].sizes[lacking] for k in near]))
        found = {i: form.at(key) for i, form in zip(lacking, of, strict=True) if form}
        return [found.get(i, n) for i, n in enumerate(sizes)]


def _beyond(recorded: dict[Length, Template], key: Length, sizes: list[int | None]) -> list[int | None]:
    """The same of a length beyond all recorded ones: what follows no form on a line through the two longest.

    As it is where more than _ESTIMATED of the bytes would be estimated so.
    """
    if len(key) != 1 or len(recorded) < 2 or key <= max(recorded):
        return sizes
    low, high = sorted(recorded)[-2:]
    per = (key[0] - low[0]) / (high[0] - low[0])
    found = list(sizes)
    guessed = 0
    for i, n in enumerate(sizes):
        if n is None:
            a, b = int(recorded[low].sizes[i]), int(recorded[high].sizes[i])
            found[i] = max(math.ceil(a + (b - a) * per), b)
            guessed += found[i] or 0
    return found if guessed <= _ESTIMATED * sum(n or 0 for n in found) else sizes


def _said(key: Length) -> str:
    return f"length {' '.join(map(str, key))}"
