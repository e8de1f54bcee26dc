"""Which values are offloaded in which idle intervals, and before which ops their copies begin.

A copy out begins with the interval, and the value leaves when it is whole; the copy back begins before the last op
that leaves it time enough on its engine. Which intervals these are is found greedily, by dry runs: in turn those in
which making the value again costs most for each ns of copying. Where an engine is full, an interval would make ops
wait, which is a cost like any other, and is left to recomputation. make_room (adjust_copies.py) offloads
before anything is to be made again; take_back ends what turns out not to be worth the wait.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.dry_run_state import D_COUNT, T_AWAYS
from coopsim.simulate.planning.prune import prune
from coopsim.simulate.planning.request import STAY
from coopsim.simulate.planning.returns import cost_to_bring_back
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_ENDS, I_OPEN, I_VALUE, take_note

USED_FIRST = 2  # in OFFLOADABLE: not before an op has used the value
_ROUNDS = 3  # of replacing, as what is replaced makes room and time for more
_LEAST = 4096  # a value of less than this part of the budget is not worth the latency of two copies


@dataclass(frozen=True)
class _Back:
    """A copy back: of which interval, how long it takes, and when it has to begin at the latest."""

    interval: int
    after: int
    before: int
    ns: int
    free: int


class Away:
    """The intervals of a draft in which values are offloaded, and which are worth it in a budget."""

    def __init__(self, draft: Draft, budget: int) -> None:
        self.draft, self.D, self.chosen, self.budget = draft, draft.D, draft.chosen, budget
        value, uses_end = self.chosen.idle[:, I_VALUE], self.D.V[:, s.USES_END]
        last = np.arange(len(value)) - value == uses_end[value]
        gap = self.chosen.idle[:, I_BEFORE] - self.chosen.idle[:, I_AFTER] > 1
        large = self.D.V[value, s.BYTES] * _LEAST >= budget
        can = self.D.copies[value, s.OFFLOADABLE]
        can = (can == 1) | ((can == USED_FIRST) & (self.chosen.idle[:, I_AFTER] >= 0))
        self.possible = can & ~last & gap & large & (self.chosen.idle[:, I_ENDS] == 0)
        self.table: list[_Back] | None = None

    def accepts(self, i: int, backs: dict[int, int], better: Callable[[], bool], left: int = -1) -> bool:
        """Offload in interval i, if a dry run of that is better; else all is as before, times included.

        backs: of i, and of intervals in which values are offloaded already, the op before which the copy back begins.
        left: the op before which the value has left, even if ops wait for that; -1: when the copy ends.
        """
        D, chosen = self.D, self.chosen
        before = int(D.decisions[i]), int(chosen.idle[i, I_OPEN]), int(chosen.left[i])
        rows, begin, away = D.away[: D.T[T_AWAYS]].copy(), D.begin.copy(), chosen.away.copy()
        K, T = D.K.copy(), D.T.copy()
        D.decisions[i], chosen.idle[i, I_OPEN] = STAY, 0
        chosen.away[list(backs)] = list(backs.values())
        chosen.left[i] = left
        self.draft.install_copies()
        if self.draft.run() and better():
            self.table = None
            return True
        D.decisions[i], chosen.idle[i, I_OPEN], chosen.left[i] = before
        chosen.away[:] = away
        count = self.draft.dry_runs
        D.away[: len(rows)], D.begin[:], D.K[:], D.T[:] = rows, begin, K, T
        D.K[D_COUNT] = count
        return False

    def latest_back(self, i: int) -> int:
        """The last op before which a copy back may begin so that it has ended when the value is used, or -1.

        By the times and the copies of the last dry run.
        """
        D, begin = self.D, self.D.begin
        v, after, before = (int(self.chosen.idle[i, c]) for c in (I_VALUE, I_AFTER, I_BEFORE))
        ns = int(D.copies[v, s.COPY_NS])
        rows = D.away[: D.T[T_AWAYS]]
        busy = rows[(rows[:, s.A_WHAT] == s.BACK) & (rows[:, s.A_END] > 0) & (rows[:, s.A_VALUE] != v)]
        end = int(begin[before])
        for k in np.argsort(-busy[:, s.A_START], kind="stable").tolist():
            if busy[k, s.A_START] < end and busy[k, s.A_END] > end - ns:
                end = int(busy[k, s.A_START])
        if end - ns < self._copied(after + 1, ns):
            return -1
        return max(int(np.searchsorted(begin, end - ns, side="right")) - 1, after + 1)

    def _copied(self, op: int, ns: int) -> int:
        """When a copy to the host that is given before op has ended, behind those given by then."""
        rows = self.D.away[: self.D.T[T_AWAYS]]
        out = rows[(rows[:, s.A_WHAT] == s.OUT) & (rows[:, s.A_OP] <= op)]
        return max(int(self.D.begin[op]), int(out[:, s.A_END].max(initial=0))) + ns

    def _beside_others(self, i: int) -> dict[int, int]:
        """As latest_back, with no other copy back begun earlier for it; empty: there is no such op."""
        back = self.latest_back(i)
        return {i: back} if back >= 0 else {}

    def _before_others(self, i: int) -> dict[int, int]:
        """The last op before which the copy back of interval i may begin, and of those that go before it for that.

        By the times of the last dry run. In the order of uses, each copy has ended when its value is used, and begins
        as late as those after it let it; it is given to its engine before, at an op. Empty if there is no such op.
        """
        D, begin = self.D, self.D.begin
        v, after, before = (int(self.chosen.idle[i, c]) for c in (I_VALUE, I_AFTER, I_BEFORE))
        table = self._timetable()
        at = bisect_left(table, -before, key=lambda row: -row.before)
        free = table[at - 1].free if at > 0 else int(begin[len(begin) - 1])
        ns = int(D.copies[v, s.COPY_NS])
        free = min(free, int(begin[before])) - ns
        if free < self._copied(after + 1, ns):
            return {}
        backs = {i: max(int(np.searchsorted(begin, free, side="right")) - 1, after + 1)}
        for row in table[at:]:
            free = min(free, int(begin[row.before])) - row.ns
            back = max(int(np.searchsorted(begin, free, side="right")) - 1, row.after + 1)
            if back >= self.chosen.away[row.interval]:
                break  # this one, and those before it, need not begin earlier than they do
            backs[row.interval] = back
        return backs

    def _timetable(self) -> list[_Back]:
        """The copies back, last uses first, by the times of the last dry run that was kept."""
        if self.table is None:
            D, begin, idle = self.D, self.D.begin, self.chosen.idle
            rows = D.away[: D.T[T_AWAYS]].tolist()
            took = {(v, op): end - start for op, what, v, start, end in rows if what == s.BACK}
            gone = np.flatnonzero(self.chosen.away >= 0)
            free, self.table = int(begin[len(begin) - 1]), []
            for i in gone[np.lexsort((gone, idle[gone, I_BEFORE]))[::-1]].tolist():
                v, after, before = (int(idle[i, c]) for c in (I_VALUE, I_AFTER, I_BEFORE))
                ns = took.get((v, int(self.chosen.away[i])), 0) or int(D.copies[v, s.COPY_NS])
                free = min(free, int(begin[before])) - ns
                self.table.append(_Back(i, after, before, ns, free))
        return self.table

    def replace(self) -> None:
        """Offload where values leave to be made again, if that is cheaper and fits."""
        for ways in (self._beside_others, self._before_others):
            self._replace(ways)

    def _replace(self, ways: Callable[[int], dict[int, int]]) -> None:
        draft, D, budget = self.draft, self.D, self.budget
        for _ in range(_ROUNDS):
            self.table = None
            draft.run()
            take_note(D, self.chosen)
            cost = begun = draft.cost
            gone = np.flatnonzero(self.possible & (D.decisions != STAY)).tolist()
            worth = {i: self._worth(i) for i in gone}
            for i in sorted(gone, key=lambda i: (-worth[i], i)):
                backs = ways(i)
                if backs and self.accepts(i, backs, lambda: draft.fits(budget, below=cost)):  # noqa: B023
                    cost = draft.cost
            if cost == begun:
                return
            prune(D, self.chosen, budget)

    def _worth(self, i: int) -> float:
        """What making the value again costs for each ns of copying."""
        v = self.chosen.idle[i, I_VALUE]
        own = float(self.D.O[self.D.V[v, s.PRODUCER], s.DECIDE])
        return max(cost_to_bring_back(self.D, self.chosen, i), own) / float(self.D.copies[v, s.COPY_NS])
