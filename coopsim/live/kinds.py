"""The kinds of step that a program has: how each begins, and which plan it goes by."""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.live.plan import Plan
from coopsim.schedule import Schedule
from coopsim.trace import Trace


@dataclass(frozen=True)
class Tried:
    """A schedule, by which a step took so many bytes over the budget. less: of the budget, what it left.

    ran_out: the step found no room, and left it.
    """

    ran_out: bool
    over: int
    schedule: Schedule
    less: int


@dataclass(eq=False)
class Kind:
    """A recorded step. decided: entries of the tape until the sizes of its batch were known. why: it has no plan.

    first: it makes the optimizer's state, as only the first step does.
    """

    trace: Trace
    tape: list[Any]
    decided: int
    peak_bytes: int
    least_bytes: int = 0  #: without which no schedule can be
    schedule: Schedule | None = None
    plan: Plan | None = None
    proven: bool = False  #: steps that went by the plan kept to the budget
    kept: int = 0  #: how many did, one after the other
    looked_ahead: bool = False  #: where its requests go was looked at when a step by the plan was over
    why: str = ""
    first: bool = False
    replans: int = 0
    less: int = 0  #: bytes that its plan has to do without, as a step took more than it was to
    too_much: int | None = None  #: as many have no plan that leaves them at every op
    tried: list[Tried] = field(default_factory=list)  #: schedules that took more than the budget
    untried: list[tuple[int, Schedule]] = field(default_factory=list)  #: others, and the bytes that they leave
    _common: "WeakKeyDictionary[Kind, int]" = field(default_factory=WeakKeyDictionary)

    def goes_on(self, at: int, func: Any) -> bool:
        """Is the entry numbered `at` this op?"""
        return at < len(self.tape) and self.tape[at].func is func

    def common(self, other: "Kind") -> int:
        """How many entries at their starts are the same."""
        if other not in self._common:
            pairs = enumerate(zip(self.tape, other.tape, strict=False))
            least = min(len(self.tape), len(other.tape))
            self._common[other] = next((i for i, (a, b) in pairs if not _alike(a, b)), least)
        return self._common[other]

    def has(self, tape: list[Any], at: int = 0) -> bool:
        """Does this kind have these entries, from the one numbered `at` on?"""
        own = self.tape[at : at + len(tape)]
        return len(own) == len(tape) and all(_alike(a, b) for a, b in zip(own, tape, strict=True))


def _alike(a: Any, b: Any) -> bool:
    """The same op on the same sizes, and on the same parameters where both say on which: files do not."""
    if a.func is not b.func or a.shapes[:2] != b.shapes[:2]:
        return False
    return a.shapes[2] == b.shapes[2] or a.shapes[2] is None or b.shapes[2] is None
