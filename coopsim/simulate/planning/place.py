"""Addresses for the residencies of a dry run, around those that are in memory when it starts."""

from collections.abc import Iterator

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.packing.as_they_come import as_they_come
from coopsim.simulate.packing.exact import FOUND, ExactSearch
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.sections import Keys, count_pairs, parts, sections
from coopsim.simulate.planning.dry_run_state import Q_BYTES, Q_FROM, Q_UNTIL
from coopsim.simulate.planning.ranges import fill, most, new_ranges

_REORDERINGS = 16  # of a greedy order: what ends above the budget is placed first
_WORK = 1.25  # placements that a search may try for each residency: those that find something hardly turn back
_WORK_APART = 10_000  # at least, for a part that may be one of many like it
_AT_ONCE = 16_384  # residencies; of more, orders other than that in which they come take the square of them
_PAIRS = 1 << 21  # of residencies that are there together: above that, an order takes long, and a search longer still
_BRIEF = 4  # what lasts no longer ends with the next op

_OFFSET, _END, _UNTIL, _FROM = range(4)  # columns of what is taken


def place(residencies: s.Array, lasting: s.Array, placed: s.Array, budget: int) -> s.Array | None:
    """Addresses below the budget for all residencies, the first of which have `placed`. None: none are found.

    lasting: those that stay where others come and go. Very many are placed as they come, which leaves little empty: all
    as low as they can, or what is brief, or lasts, as high as it can. Where the rest falls into parts, between two
    moments at which there is nothing else, those that last may be placed first, and then one part after the other.
    """
    n = len(placed)
    free = residencies[n:]
    items = Items.of(free[:, Q_BYTES], free[:, Q_FROM], free[:, Q_UNTIL])
    taken = _runs(placed, residencies[:n, Q_BYTES], residencies[:n, Q_UNTIL])
    at = _place(items, taken, budget) if len(items) <= _AT_ONCE else None
    for high in (None, items.end - items.start <= _BRIEF, lasting[n:]):
        at = as_they_come(items, taken, budget, high=high) if at is None else at
    if at is None and len(items) > _AT_ONCE:
        rest = np.flatnonzero(~lasting[n:])
        apart = [rest[part] for part in parts(items[rest])]
        if max(map(len, apart), default=0) <= _AT_ONCE:
            at = _by_parts(items, lasting[n:], apart, taken, budget)
            if at is None:
                at = _place(items, taken, budget)
    return None if at is None else np.concatenate([placed, at])


def next_below(left: s.Array, at: s.Array) -> s.Array:
    """Of each residency, the one that lies next below it when it begins; -1: none. left: as Q_LEFT; at: addresses."""
    addresses, rank = np.unique(at, return_inverse=True)
    n, found = len(addresses), np.full(len(at), -1)
    there, number = np.zeros(n, np.int64), np.zeros(n, np.int64)
    ends = np.argsort(left, kind="stable")
    _find_below(new_ranges(n), there, number, rank, ends, np.ascontiguousarray(left), found)
    return found


@kernel
def _find_below(
    tree: s.Array, there: s.Array, number: s.Array, rank: s.Array, ends: s.Array, left: s.Array, found: s.Array
) -> None:
    """Fill `found`. there: of each address, the lowest first, 1 + its place in this order while `number` is there."""
    ended = 0
    for k in range(len(rank)):
        while left[ends[ended]] <= k:
            r = rank[ends[ended]]
            if number[r] == ends[ended]:
                there[r] = 0
                fill(tree, there, r, r + 1)
            ended += 1
        r = rank[k]
        below = most(tree, 0, r)
        if below > 0:
            found[k] = number[below - 1]
        there[r], number[r] = r + 1, k
        fill(tree, there, r, r + 1)


def _place(items: Items, taken: s.Array, budget: int, least_work: int = 0) -> Ints | None:
    tries = _tries(items, taken, budget, max(least_work, round(_WORK * len(items))))
    return next((offset for offset in tries if height(items, offset) <= budget), None)


def _by_parts(items: Items, lasting: s.Array, apart: list[Ints], taken: s.Array, budget: int) -> Ints | None:
    """What lasts first, one on the other as they come, then each part, apart; equal parts are placed once."""
    stay = np.flatnonzero(lasting)
    at = as_they_come(items[stay], taken, budget)
    if at is None:
        return None
    offset = np.zeros(len(items), np.int64)
    offset[stay] = at
    rows = np.stack([at, at + items.bytes[stay], items.end[stay], items.start[stay]], axis=1)
    taken = np.concatenate([taken, rows])
    taken = taken[np.argsort(taken[:, _OFFSET], kind="stable")]
    known: dict[bytes, Ints | None] = {}
    for part in apart:
        some, there = _from_zero(items[part], taken)
        key = b"".join(a.tobytes() for a in (some.bytes, some.start, some.end, there))
        if key not in known:
            known[key] = _place(some, there, budget, _WORK_APART)
        found = known[key]
        if found is None:
            return None
        offset[part] = found
    return offset


def _from_zero(items: Items, taken: s.Array) -> tuple[Items, s.Array]:
    """The same from time 0 on, with what of `taken` is there at any of their time."""
    first, last = int(items.start.min()), int(items.end.max())
    there = taken[(taken[:, _FROM] < last) & (taken[:, _UNTIL] > first)]
    there[:, _FROM] = np.maximum(there[:, _FROM], first) - first
    there[:, _UNTIL] = np.minimum(there[:, _UNTIL], last) - first
    return Items(items.bytes, items.start - first, items.end - first, items.alignment), there


def _runs(placed: s.Array, nbytes: s.Array, until: s.Array) -> s.Array:
    """What lies side by side, and leaves together, as one: where each run begins and ends, until and from when.

    From the lowest up.
    """
    order = np.argsort(placed, kind="stable")
    begin, end, leaves = placed[order], (placed + nbytes)[order], until[order]
    apart = (begin[1:] != end[:-1]) | (leaves[1:] != leaves[:-1])
    first, last = np.append(True, apart)[: len(order)], np.append(apart, True)[: len(order)]
    return np.stack([begin[first], end[last], leaves[last], np.full(int(first.sum()), -1)], axis=1)


def _tries(items: Items, taken: s.Array, budget: int, work: int) -> Iterator[Ints]:
    """Addresses, those that are quick to find first: greedy, then searched if there is but one hole."""
    keys = Keys(items, sections(items))
    orders = [keys.order(kind) for kind in range(3)]
    many_pairs = count_pairs(keys.sections) > _PAIRS
    for best in (False, True):
        order = orders[0]
        for _ in range(_REORDERINGS // 2 if many_pairs else _REORDERINGS):
            offset = fit(items, order, best=best, around=taken, below=budget)
            yield offset
            too_high = int((offset + items.bytes > budget)[order].argmax())
            order = np.concatenate([order[too_high : too_high + 1], np.delete(order, too_high)])
    holes = _holes(taken, budget)
    if len(holes) == 1 and not many_pairs:
        search, (low, high) = ExactSearch(items, keys.sections), holes[0].tolist()
        for order in orders:
            outcome, _, offset, _ = search.below(high - low, order, work, jump=True)
            if outcome == FOUND:
                yield offset + low


def _holes(taken: s.Array, budget: int) -> s.Array:
    """Where nothing of what is taken lies, whenever that is there: from and until which address."""
    low = np.append(0, np.maximum.accumulate(taken[:, _END]))
    holes = np.stack([low, np.append(taken[:, _OFFSET], budget)], axis=1)
    return holes[holes[:, 0] < holes[:, 1]]
