"""Take back copies for which ops wait, as far as the iteration fits without them and is the cheaper for it."""

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.dry_run.run import dry_run
from coopsim.planning.dry_run.state import D_COST, D_STALL
from coopsim.planning.offload.away import Away
from coopsim.planning.plan import LEAVE_ONCE, STAY
from coopsim.planning.selection import I_OPEN, I_VALUE, exceeds, is_open

_ROUNDS = 3  # as what is taken back leaves the engines time for the rest


def take_back(away: Away) -> None:
    """Let values stay or be made again instead: in turn those whose copies take longest."""
    D, chosen, budget = away.D, away.chosen, away.budget
    for _ in range(_ROUNDS):
        dry_run(D)
        begun = cost, stall = int(D.K[D_COST]), int(D.K[D_STALL])
        gone = np.flatnonzero(away.possible & (chosen.away >= 0))
        values = chosen.idle[gone, I_VALUE]
        order = np.lexsort((gone, -D.copies[values, s.COPY_NS]))
        for i, v in zip(gone[order].tolist(), values[order].tolist(), strict=True):
            if stall == 0:
                return
            for decision in (STAY, LEAVE_ONCE) if D.V[v, s.EVICTABLE] else (STAY,):
                before = int(chosen.away[i]), int(chosen.left[i])
                _change(away, i, decision, -1, -1)
                if dry_run(D) and D.K[D_COST] < cost and exceeds(D, budget) == 0.0:
                    cost, stall = int(D.K[D_COST]), int(D.K[D_STALL])
                    chosen.idle[i, I_OPEN] = is_open(D.V, chosen.idle)[i]
                    break
                _change(away, i, STAY, *before)
        if (cost, stall) == begun:
            return


def _change(away: Away, i: int, decision: int, back: int, left: int) -> None:
    away.D.decisions[i], away.chosen.away[i], away.chosen.left[i] = decision, back, left
    away.install()
