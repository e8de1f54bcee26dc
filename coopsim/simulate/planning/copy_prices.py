"""What is offloaded around a moment: a price for each ns of copying at which the engines have time for what pays it.

In the cut at the moment (cut.py) a value is made again, resident, or on the host, whichever is cheapest. The price is
the least at which all copies of what is on the host end in time, out before the moment and back before the use. Layers
that are alike all go at one price: then the first of them go, as far as there is time, and the cut is made again for
the rest.
"""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.away import Away
from coopsim.simulate.planning.cut import decide_at
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.request import LEAVE_ONCE, STAY
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_OPEN, I_VALUE

_STEPS = 12  # of the search for the price
_LEAST, _MOST = 1e-3, 64.0  # ns that ops run again for, for each ns of copying


class CopyPrices:
    """The search for one moment. Decisions elsewhere, and copies around other moments, are left as they are."""

    def __init__(self, draft: Draft, budget: int, moment: int) -> None:
        self.draft, self.D, self.chosen, self.graph = draft, draft.D, draft.chosen, draft.graph
        self.budget, self.moment = budget, moment
        idle = self.chosen.idle
        around = (idle[:, I_AFTER] < moment) & (idle[:, I_BEFORE] > moment) & Away(draft, budget).possible
        self.interval = {int(idle[i, I_VALUE]): i for i in np.flatnonzero(around).tolist()}

    def decide(self) -> float:
        """Decisions and copies. Negative if nothing fits."""
        if self._choose(_LEAST) < 0:
            return -1.0
        if not self._all_in_time():
            self._choose(self._price())
            self.interval = {int(self.chosen.idle[i, I_VALUE]): i for i in self._backs(self._out_in_time())}
            self._choose(_LEAST)
        gone, backs = self._gone(), self._backs(self._out_in_time())
        for i in gone:
            self.D.decisions[i] = STAY if i in backs else LEAVE_ONCE
        for i, back in backs.items():
            self.chosen.idle[i, I_OPEN], self.chosen.away[i] = 0, back
        self.draft.install_copies()
        return 0.0

    def _price(self) -> float:
        """Just below the least at which all copies are in time."""
        low, high = _LEAST, _MOST
        for _ in range(_STEPS):
            middle = (low * high) ** 0.5
            self._choose(middle)
            low, high = (low, middle) if self._all_in_time() else (middle, high)
        return low

    def _choose(self, price: float) -> float:
        """Decisions at a price. What decide_at returns: negative if nothing fits, whatever the price."""
        D, graph = self.D, self.graph
        for v in self.interval:
            graph.copy_price[v] = price * float(D.copies[v, s.COPY_NS])
        least = decide_at(D, graph, self.moment, self.budget)
        graph.copy_price[:] = np.inf
        return least

    def _all_in_time(self) -> bool:
        return len(self._backs(self._out_in_time())) == len(self._gone())

    def _out_in_time(self) -> list[int]:
        """Of what is on the host at the moment, what can be there by then, in the order in which it is idle."""
        D, idle, end, found = self.D, self.chosen.idle, 0, []
        for i in sorted(self._gone(), key=lambda i: (idle[i, I_AFTER], i)):
            copied = max(end, int(D.begin[idle[i, I_AFTER] + 1])) + self._ns(i)
            if copied <= D.begin[self.moment]:
                end = copied
                found.append(i)
        return found

    def _backs(self, gone: list[int]) -> dict[int, int]:
        """The op before which each copy back begins, of those that have time: each as late as the others let it."""
        D, idle = self.D, self.chosen.idle
        free, found = int(D.begin[len(D.begin) - 1]), {}
        for i in sorted(gone, key=lambda i: (-idle[i, I_BEFORE], i)):
            begin = min(free, int(D.begin[idle[i, I_BEFORE]])) - self._ns(i)
            if begin >= D.begin[self.moment + 1]:
                free = begin
                found[i] = int(np.searchsorted(D.begin, begin, side="right")) - 1
        return found

    def _gone(self) -> list[int]:
        return [i for v, i in self.interval.items() if self.graph.gone[v]]

    def _ns(self, i: int) -> int:
        return int(self.D.copies[self.chosen.idle[i, I_VALUE], s.COPY_NS])
