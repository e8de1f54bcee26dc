"""What a choice begins with, made once for a budget."""

from collections.abc import Callable

from coopsim.planning.dry_run.state import DryRun
from coopsim.planning.offload.away import Taken, restore, taken
from coopsim.planning.selection import Selection

Begin = Callable[[int], float]  # decisions to begin with in a budget; the least that then can be, negative: none


class Remembered:
    """A begin that is asked for the same budget again, and is then not made again; and whether it is hopeless.

    waits: ops may wait for its copies.
    """

    def __init__(self, D: DryRun, chosen: Selection, begin: Begin, *, waits: bool) -> None:
        self.D, self.chosen, self.begin, self.waits = D, chosen, begin, waits
        self.known: tuple[int, float, Taken] | None = None
        self.hopeless = False  # nothing fits from it, however many dry runs there are

    def __call__(self, budget: int) -> float:
        if self.known is not None and self.known[0] == budget:
            restore(self.D, self.chosen, self.known[2])
            return self.known[1]
        least = self.begin(budget)
        self.known = budget, least, taken(self.D, self.chosen)
        return least
