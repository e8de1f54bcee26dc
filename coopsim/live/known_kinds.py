"""The kinds of step that a program has shown so far, and which of them the next step is expected to be.

Steps that dispatch the same ops on the same sizes are of one kind; a tape is the list of a recorded step's ops.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coopsim.live.kinds import Kind
from coopsim.live.plan import Entry

_STABLE = 2  #: successive steps of one kind after which the next one is assumed to be of it from its start
_RECORDED = 4  #: steps that are recorded from their start after one that left its plan
_MOST = 32  #: kinds that are kept, the latest ones


class KnownKinds:
    """Kinds of step in the order in which they were learned, with the history that predicts the next step's."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.last: Kind | None = None  #: of the latest step that was recorded or followed
        self.recurred = False  #: whether there was a step of a kind that was known already
        self._in_a_row = 0  # steps of `last`, one after the other, that were followed to their end
        self._to_record = 0
        self._grows = False  # a step had larger data than its plan

    @property
    def expected(self) -> Kind | None:
        """The kind that the next step is assumed to be of; None if its first ops have to tell."""
        sure = self.last is not None and self.last.ready and self._in_a_row >= _STABLE and not self._grows
        return self.last if sure else None

    def candidates(self, *, first_step: bool) -> list[Kind]:
        """The kinds that the next step may turn out to be of, the likeliest first; [] if it has to be recorded.

        first_step: whether it is the program's first, which alone may make the optimizer's state.
        """
        if self._to_record:
            return []
        found = [kind for kind in self.kinds if kind.ready and (not kind.first or first_step)]
        return sorted(found, key=lambda kind: (not kind.first, kind is not self.last))

    def recognise(self, tape: Sequence[Entry], stays: Mapping[int, Callable[[], Any]]) -> bool:
        """Note a recorded step, by its tape and what it found (Kind.stays). False if it is of a new kind: `add` it."""
        known = next((k for k in self.kinds if len(k.tape) == len(tape) and k.has(tape)), None)
        self._in_a_row = 0
        self._to_record = max(self._to_record - 1, 0) if known is not None else 0
        if known is None:
            return False
        numbers = known.numbers(tape)
        known.find({numbers[s]: storage for s, storage in stays.items() if s in numbers})
        self.last, self.recurred = known, True
        return True

    def saw(self, kind: Kind) -> None:
        """Note that the latest step was of this kind, which it did not follow to its end."""
        self.last = kind

    def add(self, kind: Kind) -> None:
        """Enter a new kind; the caller has made sure that it is not known yet."""
        self.kinds.append(kind)

    def add_planned(self, kinds: Sequence[Kind]) -> None:
        """Enter the kinds of a plan file: what a first step leaves is then known in the next one, which finds it."""
        for first in [kind for kind in kinds if kind.first][:1]:
            for kind in [kind for kind in kinds if not kind.first]:
                kind.come_after(first)
        self.kinds += kinds

    def forget_all(self) -> None:
        """Forget the kinds of a plan file, as the program is another."""
        self.kinds.clear()

    def forget_oldest(self) -> None:
        """Keep the latest 32 kinds only: steps of the others will be recorded again."""
        del self.kinds[:-_MOST]

    def followed(self, kind: Kind, storage: Callable[[int], Callable[[], Any] | None] = lambda _: None) -> None:
        """Note that a step was of this kind to its end, by plan or, where the kind has none, on demand.

        storage: by number of the trace, a weak reference to a storage that the plan watched.
        """
        if kind.first:
            for other in self.kinds:
                known = {s: storage(number) for s, number in other.left.items()}
                if not other.stays:
                    other.find({s: there for s, there in known.items() if there is not None})
        self._in_a_row = self._in_a_row + 1 if kind is self.last else 0
        self.last, self.recurred = kind, True

    def deviated(self, *, outgrown: bool) -> None:
        """Note that a step left its plan: the next steps, up to four, are recorded. outgrown: its data were larger."""
        self._grows |= outgrown
        self._in_a_row, self._to_record = 0, _RECORDED

    def failed(self) -> None:
        """Note that a step ended with an error, so that the next one is not assumed to be of any kind."""
        self._in_a_row = 0
