"""The step signatures that a program has: how each begins, and which plan its steps go by. Knows no torch.

Steps have one signature if they dispatch the same ops on the same sizes. An op log is the list of these ops, its
entries.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.host.hosting import STAYS
from coopsim.live.plan import Entry, Plan
from coopsim.live.plan_state import NoPlan, PlanState
from coopsim.trace import Trace

_STABLE = 2  #: successive steps of one signature after which the next one is assumed to be of it from its start
_RECORDED = 4  #: steps that are recorded from their start after one that left its plan
_MOST = 32  #: signatures that are kept, the latest ones


@dataclass(eq=False)
class Signature:
    """A recorded step, which stands for all steps that dispatch the same ops on the same sizes.

    decided: number of the op log's entries after which the sizes of the batch are known, and thus the signature.
    peak_bytes: of the step without eviction. stays: of what a step finds, by number of the trace, a weak reference to
    the storage in the latest step. first: whether it makes the optimizer's state, as only a program's first step does.
    from_first: by number of a storage that a step after the first finds, its number in the trace of the first.
    finds: such storages of a first step.
    """

    trace: Trace
    op_log: Sequence[Entry]
    decided: int
    peak_bytes: int
    first: bool = False
    state: PlanState = field(default_factory=NoPlan)
    stays: Mapping[int, Callable[[], Any]] = field(default_factory=dict)
    from_first: Mapping[int, int] = field(default_factory=dict)
    finds: set[int] = field(default_factory=set)
    _common: "WeakKeyDictionary[Signature, int]" = field(default_factory=WeakKeyDictionary)

    def move_on(self, state: PlanState) -> None:
        """The plan is in this state from now on. Planning alone says so."""
        self.state = state

    @property
    def plan(self) -> Plan | None:
        """The plan that steps of this signature follow; None if there is none."""
        return self.state.plan

    @property
    def ready(self) -> bool:
        """Whether the next step can go by the plan: all that it offloads unseen is known."""
        early = self.plan.early if self.plan is not None else ()
        return all(s in self.stays and self.stays[s]() is not None for s in early)

    def has_op(self, at: int, func: Any) -> bool:
        """Whether entry number `at` of the op log is a call of `func`."""
        return at < len(self.op_log) and self.op_log[at].func is func

    def common(self, other: "Signature") -> int:
        """The number of entries with which the op logs of both signatures begin alike."""
        if other not in self._common:
            pairs = enumerate(zip(self.op_log, other.op_log, strict=False))
            least = min(len(self.op_log), len(other.op_log))
            self._common[other] = next((i for i, (a, b) in pairs if not _alike(a, b)), least)
        return self._common[other]

    def numbers(self, op_log: Sequence[Entry]) -> dict[int, int]:
        """For numbers of storages in an op log of this signature, those of the signature's own trace.

        They follow the order in which storages were first seen, which differs where parameters were met before.
        """
        found: dict[int, int] = {}
        for own, other in zip(self.op_log, op_log, strict=True):
            found.update(zip(other.inputs, own.inputs, strict=True))
        return found

    def find(self, stays: Mapping[int, Callable[[], Any]]) -> None:
        """Note what the latest step has found where the one before had left it (`stays`)."""
        self.stays = stays

    def come_after(self, first: "Signature") -> None:
        """Note what a step finds of what a program's first step has left, which is to be known when that is over."""
        self.from_first = self.left_by(first)
        first.finds.update(self.from_first.values())

    def left_by(self, first: "Signature") -> dict[int, int]:
        """For what a step finds, by number of the trace, the numbers in the trace of the first step, which left it.

        Both work on parameters with the same ops at their beginning, and on the optimizer's state at their end.
        """
        pairs = [*takewhile(_are_alike, zip(self.op_log, first.op_log, strict=False))]
        pairs += takewhile(_are_alike, zip(reversed(self.op_log), reversed(first.op_log), strict=False))
        found: dict[int, set[int]] = defaultdict(set)
        for own, other in pairs:
            for s, number in zip(own.inputs, other.inputs, strict=False):
                found[s].add(number)
        stays = {s for s, role in enumerate(self.trace.role) if role in STAYS and self.trace.alive_at_start[s]}
        return {s: min(numbers) for s, numbers in found.items() if s in stays and len(numbers) == 1}

    def has(self, entries: Sequence[Entry], at: int = 0) -> bool:
        """Whether the op log has these entries, one after the other, from number `at` on."""
        own = self.op_log[at : at + len(entries)]
        return len(own) == len(entries) and all(_alike(a, b) for a, b in zip(own, entries, strict=True))


def _are_alike(pair: tuple[Entry, Entry]) -> bool:
    return _alike(*pair)


def _alike(a: Entry, b: Entry) -> bool:
    """Whether two entries are the same op on the same sizes, and on the same parameters.

    Parameters are compared only where both entries name them; entries read from a file do not.
    """
    if a.func is not b.func or a.shapes[:2] != b.shapes[:2]:
        return False
    return a.shapes[2] == b.shapes[2] or a.shapes[2] is None or b.shapes[2] is None


class KnownSignatures:
    """Step signatures in the order in which they were learned, with the history that predicts the next step's."""

    def __init__(self) -> None:
        self.signatures: list[Signature] = []
        self.last: Signature | None = None  #: of the latest step that was recorded or followed
        self.recurred = False  #: whether there was a step of a signature that was known already
        self._in_a_row = 0  # steps of `last`, one after the other, that were followed to their end
        self._to_record = 0
        self._decides = False  # a step had larger data than its plan, or began otherwise

    @property
    def expected(self) -> Signature | None:
        """The signature that the next step is assumed to be of; None if its first ops have to tell."""
        sure = self.last is not None and self.last.ready and self._in_a_row >= _STABLE and not self._decides
        return self.last if sure else None

    def candidates(self, *, first_step: bool) -> list[Signature]:
        """The signatures that the next step may turn out to be of, the likeliest first; [] if it has to be recorded.

        first_step: whether it is the program's first, which alone may make the optimizer's state.
        """
        if self._to_record:
            return []
        found = [signature for signature in self.signatures if signature.ready and (not signature.first or first_step)]
        return sorted(found, key=lambda signature: (not signature.first, signature is not self.last))

    def recognise(self, op_log: Sequence[Entry], stays: Mapping[int, Callable[[], Any]]) -> bool:
        """Note a recorded step, by its op log and what it found (Signature.stays). False if it is new: `add` it."""
        known = next((k for k in self.signatures if len(k.op_log) == len(op_log) and k.has(op_log)), None)
        self._in_a_row = 0
        self._to_record = max(self._to_record - 1, 0) if known is not None else 0
        if known is None:
            return False
        numbers = known.numbers(op_log)
        known.find({numbers[s]: storage for s, storage in stays.items() if s in numbers})
        self.last, self.recurred = known, True
        return True

    def saw(self, signature: Signature) -> None:
        """Note that the latest step was of this signature, which it did not follow to its end."""
        self.last = signature

    def add(self, signature: Signature) -> None:
        """Enter a new signature; the caller has made sure that it is not known yet."""
        self.signatures.append(signature)

    def add_planned(self, signatures: Sequence[Signature]) -> None:
        """Enter those of a plan file: what a first step leaves is then known in the next one, which finds it."""
        for first in [signature for signature in signatures if signature.first][:1]:
            for signature in [signature for signature in signatures if not signature.first]:
                signature.come_after(first)
        self.signatures += signatures

    def forget_all(self) -> None:
        """Forget the signatures of a plan file, as the program is another."""
        self.signatures.clear()

    def forget_oldest(self) -> None:
        """Keep the latest 32 signatures only: steps of the others will be recorded again."""
        del self.signatures[:-_MOST]

    def followed(
        self, signature: Signature, storage: Callable[[int], Callable[[], Any] | None] = lambda _: None
    ) -> None:
        """Note that a step was of this signature to its end, by plan or, where the signature has none, on demand.

        storage: by number of the trace, a weak reference to a storage that the plan watched.
        """
        if signature.first:
            for other in self.signatures:
                known = {s: storage(number) for s, number in other.from_first.items()}
                if not other.stays:
                    other.find({s: there for s, there in known.items() if there is not None})
        self._in_a_row = self._in_a_row + 1 if signature is self.last else 0
        self.last, self.recurred = signature, True

    def deviated(self, *, decide: bool) -> None:
        """Note that a step left its plan: the next steps, up to four, are recorded.

        decide: from now on the first ops of each step have to tell its signature.
        """
        self._decides |= decide
        self._in_a_row, self._to_record = 0, _RECORDED

    def failed(self) -> None:
        """Note that a step ended with an error, so that the next one is not assumed to be of any signature."""
        self._in_a_row = 0
