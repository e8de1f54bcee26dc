"""Addresses for the requests of a planned step, around what is there when it starts. Knows no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopsim.live.arena.cycle import Ints, cycle_of
from coopsim.live.arena.requests import GRANULE, TO_THE_END, Requests
from coopsim.planner.exact import FOUND, Search
from coopsim.planner.fit import fit, height
from coopsim.planner.items import Items, lower_bound
from coopsim.planner.orders import Keys
from coopsim.planner.sections import sections
from coopsim.trace import Trace

_WORK = (1.25, 40)  #: placements that a search may try for each request: those that find something hardly turn back

Resting = Sequence[tuple[int, int]]  #: offset and bytes of what stays
Gone = tuple[int, int, int]  #: offset, bytes, and the number of the request before which it is given back


@dataclass(frozen=True)
class Places:
    """offset: of each request, -1 where it has no place below the limit. height: where the highest ends.

    needed: the height if all had places. bound: no plan of addresses is lower. left: what the next step begins with, if
    it goes by the same places.
    """

    offset: list[int]
    height: int
    needed: int
    bound: int
    left: list[Gone]


def place(asked: Requests, resting: Resting, limit: int) -> Places:
    """Places for steps that follow each other, in the largest hole between what is resting."""
    low, high = _hole(resting, limit)
    offset = np.full(len(asked.nbytes), -1)
    for i, nbytes in enumerate(asked.nbytes):
        if asked.state[i] and asked.until[i] >= TO_THE_END:
            offset[i] = low
            low += nbytes
    cycle = cycle_of(asked)
    items = cycle.items
    found = _search(items, high - low)
    if found is None:
        found = _greedy(items)
    needed, bound = (low + n + limit - high for n in (height(items, found), lower_bound(items)))
    inside = found + items.bytes <= high - low
    ours = cycle.request >= 0
    offset[cycle.request[ours]] = np.where(inside, found + low, -1)[ours]
    left = [(int(offset[i]), asked.nbytes[i], until) for i, until in cycle.left if offset[i] >= 0]
    return Places(offset.tolist(), _height(asked, offset), needed, bound, left)


def around(asked: Requests, places: Places, others: Sequence[Gone], resting: Resting, limit: int, first: int) -> Places:
    """The same places for one step, for its requests from number `first` on, but where `others` lie at its start.

    What they are in the way of goes where there is room.
    """
    nbytes, until = np.array(asked.nbytes, np.int64), np.array(asked.until, np.int64)
    start = np.arange(len(nbytes))
    offset = np.array(places.offset, np.int64)
    coming = start >= first
    moved = coming & (offset < 0)
    for at, size, goes in others:
        moved |= coming & (offset >= 0) & (start < goes) & (offset < at + size) & (offset + nbytes > at)
    stays = coming & ~moved
    taken = np.concatenate([
        np.stack([offset[stays], (offset + nbytes)[stays], until[stays], start[stays]], axis=1),
        np.array([(at, at + size, goes, -1) for at, size, goes in others], np.int64).reshape(-1, 4),
        np.array([(at, at + size, TO_THE_END, -1) for at, size in resting], np.int64).reshape(-1, 4),
    ])  # fmt: skip
    taken = taken[np.argsort(taken[:, 0], kind="stable")]
    items = Items.of(nbytes[moved], start[moved], until[moved])
    found = fit(items, np.argsort(-items.bytes, kind="stable"), best=True, around=taken)
    offset[moved] = np.where(found + items.bytes <= limit, found, -1)
    return Places(offset.tolist(), _height(asked, offset), places.needed, places.bound, places.left)


def at_start(asked: Requests, trace: Trace, others: int) -> Resting:
    """What stays, before a step, as far as that can be known beforehand. others: bytes that are not the program's."""
    sizes = (-(-n // GRANULE) * GRANULE for n in trace.bytes[trace.alive_at_start].tolist())
    top = -(-others // GRANULE) * GRANULE + sum(sizes) - sum(n for n, _ in asked.initial)
    return [(0, top)] if top else []


def _hole(resting: Resting, limit: int) -> tuple[int, int]:
    """The largest."""
    edges = [0, *(edge for at, nbytes in sorted(resting) for edge in (at, at + nbytes)), limit]
    return max(((low, max(low, high)) for low, high in zip(edges[::2], edges[1::2], strict=True)), key=_length)


def _length(hole: tuple[int, int]) -> int:
    return hole[1] - hole[0]


def _search(items: Items, room: int) -> Ints | None:
    keys = Keys(items, sections(items))
    search = Search(items, keys.sections)
    for work in _WORK:
        for order in (keys.order(kind) for kind in range(3)):
            outcome, _, offset, _ = search.below(room, order, round(work * len(items)), jump=True)
            if outcome == FOUND:
                return offset
    return None


def _greedy(items: Items) -> Ints:
    """The lowest of some."""
    keys = Keys(items, sections(items))
    tries = (fit(items, order, best=best) for order in keys.greedy() for best in (False, True))
    return min(tries, key=lambda offset: height(items, offset))


def _height(asked: Requests, offset: Ints) -> int:
    return int((offset + np.array(asked.nbytes, np.int64))[offset >= 0].max(initial=0))
