"""Offload in an iteration that keeps everything else, until it fits.

Longest idle first, without a look at what it costs to make a value again: for steps in which little can be.
"""

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.dry_run.run import dry_run
from coopsim.planning.dry_run.state import D_STALL
from coopsim.planning.offload.away import Away
from coopsim.planning.plan import STAY
from coopsim.planning.selection import I_AFTER, I_BEFORE, I_VALUE, exceeds, excess

_ROUNDS = 3  # the more is gone, the more ops may wait for


def make_room(away: Away, *, back_late: bool = False, out_late: bool = False, lasting: bool = False) -> None:
    """From decisions that keep all: offload what is idle longest where too much is in memory, until it fits.

    back_late: also where ops then wait for copies back. out_late: for copies out, too. lasting: only what cannot
    leave otherwise, as parameters.
    """
    D, chosen, budget = away.D, away.chosen, away.budget
    dry_run(D)
    over = excess(D, chosen, budget)
    idle = chosen.idle
    may = away.possible & (D.decisions == STAY)
    if lasting:
        may &= ~D.V[idle[:, I_VALUE], s.EVICTABLE].astype(bool)
    for _ in range(_ROUNDS if out_late else 1):
        begun = over
        covered = chosen.over[idle[:, I_BEFORE].clip(0)] - chosen.over[(idle[:, I_AFTER] + 1).clip(0)]
        for i in sorted(np.flatnonzero(may & (covered > 0)).tolist(), key=lambda i: (-int(covered[i]), i)):
            if over == 0.0:
                return
            most = np.inf if back_late else int(D.K[D_STALL])
            for back, left in _times(away, i, back_late=back_late, out_late=out_late):
                if away.accepts(i, {i: back}, lambda: D.K[D_STALL] <= most and exceeds(D, budget) < over, left):  # noqa: B023
                    over = excess(D, chosen, budget)
                    break
        if over == begun:
            return


def _times(away: Away, i: int, *, back_late: bool, out_late: bool) -> list[tuple[int, int]]:
    """Ops of interval i: before which the copy back begins, and before which the value has left, or -1.

    A copy back ends in time, if there is such an op. back_late: or it begins before the op that uses the value, as
    nothing else frees its memory until then. out_late: ops wait for the copy out where too much is in memory first.
    """
    idle, over = away.chosen.idle, away.chosen.excess > 0
    back, use, first = away.latest_back(i), int(idle[i, I_BEFORE]), int(idle[i, I_AFTER]) + 1
    lefts = (-1, first + int(over[first:use].argmax())) if out_late else (-1,)
    backs = [op for op in dict.fromkeys((back, use)) if op >= 0 and (back_late or op == back)]
    return [(op, left) for left in lefts for op in backs]
