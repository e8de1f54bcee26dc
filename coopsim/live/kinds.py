"""The kinds of step that a program has: how each begins, and which plan it goes by."""

from dataclasses import dataclass
from typing import Any

from coopsim.live.plan import Plan
from coopsim.trace import Trace


@dataclass(eq=False)
class Kind:
    """A recorded step. decided: entries of the tape until the sizes of its batch were known. why: it has no plan."""

    trace: Trace
    tape: list[Any]
    decided: int
    peak_bytes: int
    plan: Plan | None = None
    why: str = ""
    replans: int = 0
    less: int = 0  #: bytes that its plan has to do without, as a step took more than it was to
    proven: int = 0  #: steps that went by the plan to their ends

    def has(self, tape: list[Any], at: int = 0) -> bool:
        """Does this kind have these entries, from the one numbered `at` on?"""
        own = self.tape[at : at + len(tape)]
        return len(own) == len(tape) and all(
            a.func is b.func and a.shapes == b.shapes for a, b in zip(own, tape, strict=True)
        )
