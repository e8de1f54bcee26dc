"""Addresses for the residencies of a dry run, around those that are in memory when it starts."""

from collections.abc import Iterator

import numpy as np

from coopsim.kernel import state as s
from coopsim.planner.exact import FOUND, ExactSearch
from coopsim.planner.fit import fit, height
from coopsim.planner.items import Ints, Items
from coopsim.planner.sections import Keys, sections
from coopsim.planning.dry_run_state import Q_BYTES, Q_FROM, Q_UNTIL

_REORDERINGS = 16  # of a greedy order: what ends above the budget is placed first
_WORK = 1.25  # placements that a search may try for each residency: those that find something hardly turn back


def place(residencies: s.Array, placed: s.Array, budget: int) -> s.Array | None:
    """Addresses below the budget for all residencies, the first of which have `placed`. None: none are found."""
    n = len(placed)
    free = residencies[n:]
    items = Items.of(free[:, Q_BYTES], free[:, Q_FROM], free[:, Q_UNTIL])
    for offset in _tries(items, _runs(placed, residencies[:n, Q_BYTES], residencies[:n, Q_UNTIL]), budget):
        if height(items, offset) <= budget:
            return np.concatenate([placed, offset])
    return None


def _runs(placed: s.Array, nbytes: s.Array, until: s.Array) -> s.Array:
    """What lies side by side, and leaves together, as one: where each run begins and ends, and until when it is there.

    From the lowest up.
    """
    order = np.argsort(placed, kind="stable")
    begin, end, leaves = placed[order], (placed + nbytes)[order], until[order]
    apart = (begin[1:] != end[:-1]) | (leaves[1:] != leaves[:-1])
    first, last = np.append(True, apart), np.append(apart, True)
    return np.stack([begin[first], end[last], leaves[last]], axis=1) if len(placed) else placed


def _tries(items: Items, taken: s.Array, budget: int) -> Iterator[Ints]:
    """Addresses, those that are quick to find first: greedy, then searched if there is but one hole."""
    keys = Keys(items, sections(items))
    orders = [keys.order(kind) for kind in range(3)]
    for best in (False, True):
        order = orders[0]
        for _ in range(_REORDERINGS):
            offset = fit(items, order, best=best, around=taken, below=budget)
            yield offset
            too_high = int((offset + items.bytes > budget)[order].argmax())
            order = np.concatenate([order[too_high : too_high + 1], np.delete(order, too_high)])
    edges = np.concatenate([[0], taken.reshape(-1, 3)[:, :2].ravel(), [budget]]).reshape(-1, 2)
    holes = edges[edges[:, 0] < edges[:, 1]]
    if len(holes) == 1:
        search, (low, high) = ExactSearch(items, keys.sections), holes[0].tolist()
        for order in orders:
            outcome, _, offset, _ = search.below(high - low, order, round(_WORK * len(items)), jump=True)
            if outcome == FOUND:
                yield offset + low
