"""Copies to the host as a whole: enough of them for an iteration to fit, early enough, and no more than pay.

make_room offloads in an iteration that keeps everything else, longest idle first, without a look at what it costs to
make a value again: for steps in which little can be. take_back ends copies for which ops wait, as far as the iteration
fits without them and is the cheaper for it.
"""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.away import Away
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.request import LEAVE_ONCE, STAY
from coopsim.simulate.planning.selection import COMES, I_AFTER, I_BEFORE, I_ENDS, I_OPEN, I_VALUE, is_open

_ROUNDS = 3  # as each copy that is moved moves others, and the more is gone, the more ops may wait for


def make_room(away: Away, *, back_late: bool = False, out_late: bool = False, lasting: bool = False) -> None:
    """From decisions that keep all: offload what is idle longest where too much is in memory, until it fits.

    back_late: also where ops then wait for copies back. out_late: for copies out, too. lasting: only what cannot
    leave otherwise, as parameters.
    """
    draft, D, chosen, budget = away.draft, away.D, away.chosen, away.budget
    draft.run()
    over = draft.excess(budget)
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
            most = np.inf if back_late else draft.stall
            for back, left in _times(away, i, back_late=back_late, out_late=out_late):
                if away.accepts(i, {i: back}, lambda: draft.stall <= most and draft.exceeds(budget) < over, left):  # noqa: B023
                    over = draft.excess(budget)
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


def prefetch(draft: Draft, budget: int) -> None:
    """One after the other in the order of uses: before the op that lets it end in time, as far as there is room."""
    idle, away = draft.chosen.idle, Away(draft, budget)
    comes = np.flatnonzero(idle[:, I_ENDS] == COMES)
    order = comes[np.lexsort((comes, idle[comes, I_BEFORE]))].tolist()
    for _ in range(_ROUNDS if order else 0):
        draft.run()
        cost = begun = draft.cost
        for i in order:
            back = max(away.latest_back(i), _first_with_room(draft, i, budget))
            if back < draft.chosen.away[i] and away.accepts(
                i,
                {i: back},
                lambda: draft.fits(budget, below=cost),  # noqa: B023
            ):
                cost = draft.cost
        if cost == begun:
            return


def _first_with_room(draft: Draft, i: int, budget: int) -> int:
    """The first op from which on there is room for the value, up to where its copy back begins by now."""
    D, chosen = draft.D, draft.chosen
    now, nbytes = int(chosen.away[i]), int(D.V[chosen.idle[i, I_VALUE], s.BYTES])
    full = np.flatnonzero(D.peak[:now] + nbytes > budget)
    return int(full[-1]) + 1 if len(full) else 0


def take_back(away: Away) -> None:
    """Let values stay or be made again instead: in turn those whose copies take longest."""
    draft, D, chosen, budget = away.draft, away.D, away.chosen, away.budget
    for _ in range(_ROUNDS):
        draft.run()
        begun = cost, stall = draft.cost, draft.stall
        gone = np.flatnonzero(away.possible & (chosen.away >= 0))
        values = chosen.idle[gone, I_VALUE]
        order = np.lexsort((gone, -D.copies[values, s.COPY_NS]))
        for i, v in zip(gone[order].tolist(), values[order].tolist(), strict=True):
            if stall == 0:
                return
            for decision in (STAY, LEAVE_ONCE) if D.V[v, s.EVICTABLE] else (STAY,):
                before = int(chosen.away[i]), int(chosen.left[i])
                _change(away, i, decision, -1, -1)
                if draft.run() and draft.fits(budget, below=cost):
                    cost, stall = draft.cost, draft.stall
                    chosen.idle[i, I_OPEN] = is_open(D.V, chosen.idle)[i]
                    break
                _change(away, i, STAY, *before)
        if (cost, stall) == begun:
            return


def _change(away: Away, i: int, decision: int, back: int, left: int) -> None:
    away.D.decisions[i], away.chosen.away[i], away.chosen.left[i] = decision, back, left
    away.draft.install_copies()
