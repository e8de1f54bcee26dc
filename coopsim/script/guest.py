"""What other packages do inside a script's processes: `fit` makes changes there, `live` keeps steps to a budget.

A task names such a package's module, which is imported in the script's process. Its GUEST makes a guest.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from coopsim.script.watch import Watch


class Guest(Protocol):
    """One, in one process of a script: made, then `begin`, and at last `end`, or `forget` where it is a fork."""

    def begin(self, watch: "Watch | None") -> None:
        """Start, now that torch is there and is watched. watch: None where no card is imitated."""

    def forget(self) -> None:
        """Stop: this process is a fork of the script's, such as a worker that loads data."""

    def end(self) -> dict[str, Any]:
        """What is to be reported, as JSON can hold it, now that the script has ended."""


class MakesGuest(Protocol):
    """Makes a guest when torch has just been imported, and nothing has looked at its allocator yet."""

    def __call__(self, told: str) -> Guest:
        """told: what the task says to it, in a form of its own."""


def make(module: str, told: str) -> Guest:
    """The guest of that module."""
    factory: MakesGuest = importlib.import_module(module).GUEST
    return factory(told)
