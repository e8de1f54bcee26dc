"""The kinds of step that a program has: how each begins, and which plan its steps go by. Knows no torch.

Steps are of one kind if they dispatch the same ops on the same sizes. A tape is the list of these ops, its entries.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.host.hosting import STAYS
from coopsim.live.plan import Entry, Plan
from coopsim.live.plan_state import PlanState
from coopsim.trace import Trace


@dataclass(eq=False)
class Kind:
    """A recorded step, which stands for all steps that dispatch the same ops on the same sizes.

    decided: number of the tape's entries after which the sizes of the batch are known, and thus the kind. peak_bytes:
    of the step without eviction. stays: of what a step finds, by number of the trace, a weak reference to the storage
    in the latest step. first: whether it makes the optimizer's state, as only a program's first step does. left: by
    number of a storage that a step after the first finds, its number in the trace of the first (left_by). finds: such
    storages of a first step.
    """

    trace: Trace
    tape: Sequence[Entry]
    decided: int
    peak_bytes: int
    first: bool = False
    state: PlanState = field(default_factory=PlanState)
    stays: Mapping[int, Callable[[], Any]] = field(default_factory=dict)
    left: Mapping[int, int] = field(default_factory=dict)
    finds: set[int] = field(default_factory=set)
    _common: "WeakKeyDictionary[Kind, int]" = field(default_factory=WeakKeyDictionary)

    @property
    def plan(self) -> Plan | None:
        """The plan that steps of this kind follow; None if there is none."""
        return self.state.plan

    @property
    def ready(self) -> bool:
        """Whether the next step can go by the plan: all that it offloads unseen is known."""
        early = self.plan.early if self.plan is not None else ()
        return all(s in self.stays and self.stays[s]() is not None for s in early)

    def has_op(self, at: int, func: Any) -> bool:
        """Whether entry number `at` of the tape is a call of `func`."""
        return at < len(self.tape) and self.tape[at].func is func

    def common(self, other: "Kind") -> int:
        """The number of entries with which the tapes of both kinds begin alike."""
        if other not in self._common:
            pairs = enumerate(zip(self.tape, other.tape, strict=False))
            least = min(len(self.tape), len(other.tape))
            self._common[other] = next((i for i, (a, b) in pairs if not _alike(a, b)), least)
        return self._common[other]

    def numbers(self, tape: Sequence[Entry]) -> dict[int, int]:
        """For numbers of storages in a tape of this kind, those of the kind's own trace.

        They follow the order in which storages were first seen, which differs where parameters were met before.
        """
        found: dict[int, int] = {}
        for own, other in zip(self.tape, tape, strict=True):
            found.update(zip(other.inputs, own.inputs, strict=True))
        return found

    def find(self, stays: Mapping[int, Callable[[], Any]]) -> None:
        """Note what the latest step has found where the one before had left it (`stays`)."""
        self.stays = stays

    def come_after(self, first: "Kind") -> None:
        """Note what a step finds of what a program's first step has left, which is to be known when that is over."""
        self.left = self.left_by(first)
        first.finds.update(self.left.values())

    def left_by(self, first: "Kind") -> dict[int, int]:
        """For what a step finds, by number of the trace, the numbers in the trace of the first step, which left it.

        Both work on parameters with the same ops at their beginning, and on the optimizer's state at their end.
        """
        pairs = [*takewhile(_are_alike, zip(self.tape, first.tape, strict=False))]
        pairs += takewhile(_are_alike, zip(reversed(self.tape), reversed(first.tape), strict=False))
        found: dict[int, set[int]] = defaultdict(set)
        for own, other in pairs:
            for s, number in zip(own.inputs, other.inputs, strict=False):
                found[s].add(number)
        stays = {s for s, role in enumerate(self.trace.role) if role in STAYS and self.trace.alive_at_start[s]}
        return {s: min(numbers) for s, numbers in found.items() if s in stays and len(numbers) == 1}

    def has(self, entries: Sequence[Entry], at: int = 0) -> bool:
        """Whether the tape has these entries, one after the other, from number `at` on."""
        own = self.tape[at : at + len(entries)]
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
