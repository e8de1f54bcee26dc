"""Begin the copies back of what only the host has when an iteration begins, so early that ops do not wait for them."""

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.dry_run.run import dry_run
from coopsim.planning.dry_run.state import D_COST, DryRun
from coopsim.planning.offload.away import Away
from coopsim.planning.selection import COMES, I_BEFORE, I_ENDS, I_VALUE, Selection, exceeds

_ROUNDS = 3  # as each earlier copy moves all that come after it


def prefetch(D: DryRun, chosen: Selection, budget: int) -> None:
    """One after the other in the order of uses: before the op that lets it end in time, as far as there is room."""
    idle, away = chosen.idle, Away(D, chosen, budget)
    comes = np.flatnonzero(idle[:, I_ENDS] == COMES)
    order = comes[np.lexsort((comes, idle[comes, I_BEFORE]))].tolist()
    for _ in range(_ROUNDS if order else 0):
        dry_run(D)
        cost = begun = int(D.K[D_COST])
        for i in order:
            back = max(away.latest_back(i), _first_with_room(D, chosen, i, budget))
            if back < chosen.away[i] and away.accepts(
                i,
                {i: back},
                lambda: D.K[D_COST] < cost and exceeds(D, budget) == 0.0,  # noqa: B023
            ):
                cost = int(D.K[D_COST])
        if cost == begun:
            return


def _first_with_room(D: DryRun, chosen: Selection, i: int, budget: int) -> int:
    """The first op from which on there is room for the value, up to where its copy back begins by now."""
    now, nbytes = int(chosen.away[i]), int(D.V[chosen.idle[i, I_VALUE], s.BYTES])
    full = np.flatnonzero(D.peak[:now] + nbytes > budget)
    return int(full[-1]) + 1 if len(full) else 0
