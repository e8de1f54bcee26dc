"""A long run: which steps, of which lengths, and what the allocator had at each of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.run.longrun import lengths
from coopsim.run.longrun.book import Book
from coopsim.run.longrun.lengths import Length
from coopsim.run.longrun.play import PEAK_ALLOCATED, Played, play
from coopsim.run.longrun.recorded import RecordedSteps
from coopsim.run.longrun.schedule import FIRST
from coopsim.run.longrun.sections import RecordedStep, Template, steps
from coopsim.simulate.allocators.caching.api import ENDLESS

SEED = 0
#: Changes the lengths of a run: padding, a cap.
Change: TypeAlias = Callable[[Length], Length]


@dataclass(frozen=True)
class Card:
    """What the allocator finds: bytes of the device that are its to take; what the script lets it take, 0: all."""

    bytes: int
    limit_bytes: int = 0


class LongRun:
    """The steps of a long run, ready to be played. `source`: the file of lengths, or "" if they are drawn.

    The first steps are as recorded: all of them if lengths are drawn, three if they come from a file, whose line n is
    the length of step n. Raises CoopsimError if too little was recorded, and for a file that is none of lengths.
    """

    def __init__(self, recorded: RecordedSteps, source: Path | None, count: int | None, seed: int = SEED) -> None:
        self.recorded = recorded
        self._steps: list[RecordedStep] = steps(recorded)
        if len(self._steps) < FIRST + 2:
            raise CoopsimError(f"too few steps for a replay: {len(self._steps)}; it takes at least {FIRST + 2}")
        self.book = Book(self._steps)
        self.source = source
        seen = [self.book.lengths[n] for n in sorted(self.book.lengths)]
        if source is not None:
            given = lengths.given(source, self.book.axes)
            if count is not None and count > len(given):
                raise CoopsimError(f"{source}: has {len(given)} lines; {count} steps are asked for")
            given = given[:count]
        else:
            assert count is not None
            own = [self.book.lengths.get(step.number, seen[0]) for step in self._steps][:count]
            playable = [length for length in seen if self.book.stand_in(length) is not None]
            if not playable and count > len(own):
                raise CoopsimError("the recorded steps make requests that follow no rule: none can be played again")
            given = [*own, *lengths.drawn(playable, count - len(own), seed)]
        self.as_recorded = min(FIRST if source is not None else len(self._steps), len(given))
        self.lengths = self._known(given)

    def _known(self, given: Sequence[Length]) -> tuple[Length, ...]:
        found = [self.book.stand_in(length) for length in given]
        for i, length in enumerate(found):
            if length is None:
                said = " ".join(map(str, given[i]))
                raise CoopsimError(
                    f"{self.source}:{i + 1}: length {said}: longer than any recorded step, and what it takes does not "
                    "follow from those; record a step of that length"
                )
        self.stood_in = sum(a != b for a, b in zip(found[self.as_recorded :], given[self.as_recorded :], strict=True))
        known = tuple(length for length in found if length is not None)
        self.estimated = sum(self.book.is_estimated(length) for length in known)
        return known

    def __len__(self) -> int:
        return len(self.lengths)

    def play(self, card: Card, conf: str | None = None, *, change: Change | None = None, empties: int = 0) -> Played:
        """Play it, up to the step that finds no memory. `conf`: settings of the allocator, None: those of the script.

        change: of the lengths; empties: empty the cache before every so many steps.
        """
        return self._play(self._all(change, empties), card, conf)

    def alone(self, length: Length, card: Card | None = None, times: int = 3) -> Played:
        """Play the first steps, then from an empty cache one step of a length, and `times` more, whose the rows are."""

        def sections() -> Iterator[Sequence[Template]]:
            for step in self._steps[:FIRST]:
                yield step.sections
            for n in range(times + 1):
                first, *others = self.book.sections(length, 1)
                yield (replace(first, empties=(0,)) if n == 0 else first), *others

        found = self._play(sections(), card or Card(ENDLESS), None)
        # the peaks of the first of them are of what there was before its cache was emptied
        return replace(found, bytes=found.bytes[FIRST + (len(found.bytes) > FIRST + 1) :])

    @cached_property
    def endless(self) -> Played:
        """Played on a device on which memory never runs out."""
        return self.play(Card(ENDLESS))

    def _play(self, of: Iterator[Sequence[Template]], card: Card, conf: str | None) -> Played:
        conf = self.recorded.conf if conf is None else conf
        return play(of, self.recorded.torch, conf, card.bytes, card.limit_bytes)

    def _all(self, change: Change | None, empties: int) -> Iterator[Sequence[Template]]:
        for number, length in enumerate(self.lengths, 1):
            unchanged = change is None or change(length) == length
            if number <= (self.as_recorded if unchanged else FIRST):
                sections: Sequence[Template] = self._steps[number - 1].sections
            else:
                changed = length if change is None else self.book.stand_in(change(length))
                if changed is None:
                    raise CoopsimError(f"length {' '.join(map(str, length))}: what it would take is not known")
                sections = self.book.sections(changed, number)
            if empties and number % empties == 0:
                first, *others = sections
                sections = (replace(first, empties=(0, *first.empties)), *others)
            yield sections


def longest(run: LongRun) -> Length:
    """Return the length of the step with the highest peak of allocated bytes, on a card without end."""
    return run.lengths[int(np.argmax(run.endless.bytes[:, PEAK_ALLOCATED]))]


def usual(run: LongRun) -> Length:
    """Return the length of the step whose peak of allocated bytes is the median; of an even number, the lower one."""
    peaks = run.endless.bytes[:, PEAK_ALLOCATED]
    return run.lengths[int(np.argsort(peaks, kind="stable")[(len(peaks) - 1) // 2])]
