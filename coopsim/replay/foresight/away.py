"""Which values are offloaded in which idle intervals, and before which ops their copies begin.

A copy out begins with the interval, and the value leaves when it is whole; the copy back begins before the last op
that leaves it time enough on its engine. Which intervals these are is found greedily, by dry runs: in turn those in
which making the value again costs most for each ns of copying. Where an engine is full, an interval would make ops
wait, which is a cost like any other, and is left to recomputation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.replay.foresight.dry_run import dry_run
from coopsim.replay.foresight.dry_run_state import D_AWAYS, D_COST, D_COUNT, D_STALL, DryRun
from coopsim.replay.foresight.prune import prune
from coopsim.replay.foresight.select import cost_to_bring_back
from coopsim.replay.foresight.selection import I_AFTER, I_BEFORE, I_OPEN, I_VALUE, Selection, exceeds, excess, take_note
from coopsim.replay.plan import STAY

USED_FIRST = 2  # in OFFLOADABLE: not before an op has used the value
_ROUNDS = 3  # of replacing, as what is replaced makes room and time for more
_LEAST = 4096  # a value of less than this part of the budget is not worth the latency of two copies


@dataclass(frozen=True)
class Taken:
    """Decisions to come back to."""

    decisions: Any
    away: Any
    count: int
    is_open: Any
    back: Any


def taken(D: DryRun, chosen: Selection) -> Taken:
    """The decisions as they stand, copies included."""
    return Taken(
        D.decisions.copy(), D.away.copy(), int(D.K[D_AWAYS]), chosen.idle[:, I_OPEN].copy(), chosen.away.copy()
    )


def restore(D: DryRun, chosen: Selection, to: Taken) -> None:
    """Back to these, with their dry run."""
    D.decisions[:], D.away[:], D.K[D_AWAYS] = to.decisions, to.away, to.count
    chosen.idle[:, I_OPEN], chosen.away[:] = to.is_open, to.back
    dry_run(D)


class Away:
    """The intervals of a selection in which values are offloaded."""

    def __init__(self, D: DryRun, chosen: Selection, budget: int) -> None:
        self.D, self.chosen, self.budget = D, chosen, budget
        value, uses_end = chosen.idle[:, I_VALUE], D.V[:, s.USES_END]
        last = np.arange(len(value)) - value == uses_end[value]
        gap = chosen.idle[:, I_BEFORE] - chosen.idle[:, I_AFTER] > 1
        large = D.V[value, s.BYTES] * _LEAST >= budget
        can = D.copies[value, s.OFFLOADABLE]
        can = (can == 1) | ((can == USED_FIRST) & (chosen.idle[:, I_AFTER] >= 0))
        self.possible = can & ~last & gap & large

    def install(self) -> None:
        """Write the copies into the dry run, in order."""
        idle, away = self.chosen.idle, self.D.away
        rows = []
        for i in np.flatnonzero(self.chosen.away >= 0).tolist():
            back = int(self.chosen.away[i])
            v, after, before = (int(idle[i, c]) for c in (I_VALUE, I_AFTER, I_BEFORE))
            rows += [(after + 1, 0, before, v), (back, 1, before, v)]
        rows.sort()
        self.D.K[D_AWAYS] = len(rows)
        if rows:
            away[: len(rows), [s.A_OP, s.A_BACK, s.A_VALUE]] = np.array(rows, np.int64)[:, [0, 1, 3]]
            away[: len(rows), s.A_START :] = 0

    def accepts(self, i: int, back: int, better: Callable[[], bool]) -> bool:
        """Offload in interval i, if a dry run of that is better; else all is as before, times included."""
        D, chosen = self.D, self.chosen
        before = int(D.decisions[i]), int(chosen.idle[i, I_OPEN]), int(D.K[D_AWAYS])
        rows, begin, K = D.away[: D.K[D_AWAYS]].copy(), D.begin.copy(), D.K.copy()
        D.decisions[i], chosen.idle[i, I_OPEN], chosen.away[i] = STAY, 0, back
        self.install()
        if dry_run(D) and better():
            return True
        D.decisions[i], chosen.idle[i, I_OPEN], D.K[D_AWAYS] = before
        chosen.away[i] = -1
        count = int(D.K[D_COUNT])
        D.away[: len(rows)], D.begin[:], D.K[:] = rows, begin, K
        D.K[D_COUNT] = count
        return False

    def latest_back(self, i: int) -> int:
        """The last op before which a copy back may begin so that it has ended when the value is used, or -1.

        By the times and the copies of the last dry run.
        """
        D, begin = self.D, self.D.begin
        v, after, before = (int(self.chosen.idle[i, c]) for c in (I_VALUE, I_AFTER, I_BEFORE))
        ns = int(D.copies[v, s.COPY_NS])
        rows = D.away[: D.K[D_AWAYS]]
        busy = rows[(rows[:, s.A_BACK] == 1) & (rows[:, s.A_END] > 0) & (rows[:, s.A_VALUE] != v)]
        end = int(begin[before])
        for k in np.argsort(-busy[:, s.A_START], kind="stable").tolist():
            if busy[k, s.A_START] < end and busy[k, s.A_END] > end - ns:
                end = int(busy[k, s.A_START])
        out = rows[(rows[:, s.A_BACK] == 0) & (rows[:, s.A_OP] <= after + 1)]
        copied = max(int(begin[after + 1]), int(out[:, s.A_END].max(initial=0))) + ns
        if end - ns < copied:
            return -1
        return max(int(np.searchsorted(begin, end - ns, side="right")) - 1, after + 1)

    def replace(self) -> None:
        """Offload where values leave to be made again, if that is cheaper and fits."""
        D, chosen, budget = self.D, self.chosen, self.budget
        for _ in range(_ROUNDS):
            dry_run(D)
            take_note(D, chosen)
            cost = begun = int(D.K[D_COST])
            gone = np.flatnonzero(self.possible & (D.decisions != STAY)).tolist()
            worth = {i: self._worth(i) for i in gone}
            for i in sorted(gone, key=lambda i: (-worth[i], i)):
                back = self.latest_back(i)
                if back < 0:
                    continue
                if self.accepts(i, back, lambda: D.K[D_COST] < cost and exceeds(D, budget) == 0.0):  # noqa: B023
                    cost = int(D.K[D_COST])
            if cost == begun:
                return
            prune(D, chosen, budget)

    def _worth(self, i: int) -> float:
        """What making the value again costs for each ns of copying."""
        v = self.chosen.idle[i, I_VALUE]
        own = float(self.D.O[self.D.V[v, s.PRODUCER], s.DECIDE])
        return max(cost_to_bring_back(self.D, self.chosen, i), own) / float(self.D.copies[v, s.COPY_NS])

    def first(self, *, may_stall: bool, lasting: bool = False) -> None:
        """From decisions that keep all: offload what is idle longest where too much is in memory, until it fits.

        may_stall: also where ops then wait for copies. lasting: only what cannot leave otherwise, as parameters.
        """
        D, chosen, budget = self.D, self.chosen, self.budget
        dry_run(D)
        over = excess(D, chosen, budget)
        idle = chosen.idle
        covered = chosen.over[idle[:, I_BEFORE].clip(0)] - chosen.over[(idle[:, I_AFTER] + 1).clip(0)]
        may = ~D.V[idle[:, I_VALUE], s.EVICTABLE].astype(bool) if lasting else True
        order = np.flatnonzero(self.possible & may & (covered > 0) & (D.decisions == STAY)).tolist()
        for i in sorted(order, key=lambda i: (-int(covered[i]), i)):
            if over == 0.0:
                return
            stall, back = int(D.K[D_STALL]), self.latest_back(i)
            if back < 0:
                if not may_stall:
                    continue
                back = int(idle[i, I_BEFORE])
            if self.accepts(i, back, lambda: (may_stall or D.K[D_STALL] <= stall) and exceeds(D, budget) < over):  # noqa: B023
                over = exceeds(D, budget)
