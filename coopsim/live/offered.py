"""The session that the next Budget of this process joins, in place of one of its own."""

from collections.abc import Callable

from coopsim.live.session import TrainingSession


class OfferedSession:
    """Holds at most one offer, which the next taker gets.

    `coopsim live run` makes the session, and the script that it runs may make a Budget. The script makes that itself,
    so no argument can carry the session there: `OFFERED` is the one global of this package that holds state.
    """

    def __init__(self) -> None:
        self._make: Callable[[], TrainingSession] | None = None

    def offer(self, make: Callable[[], TrainingSession]) -> None:
        """Let the next Budget call `make` and join the session that this returns; an offer not taken is replaced."""
        self._make = make

    def take(self) -> TrainingSession | None:
        """The session that is on offer, which is withdrawn; None if there is none."""
        make, self._make = self._make, None
        return make() if make is not None else None


OFFERED = OfferedSession()
