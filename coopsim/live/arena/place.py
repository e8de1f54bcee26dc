"""Assigns addresses to the requests of a planned step, around the blocks that exist when it starts. Knows no torch.

Offsets and sizes are in bytes, offsets from the arena's start; times are numbers of requests of the step. Blocks that
exist before the step and stay through it are resting. Those that a step frees were allocated by the step before: in a
cycle of equal steps, such a block is one item with one address, whose lifetime wraps around. The cycle is cut at the
start of the step, or where the last of these blocks is freed, whichever has the lower bound on memory.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import GRANULE
from coopsim.live.arena.requests import TO_THE_END, Requests
from coopsim.simulate.packing.exact import FOUND, ExactSearch
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Items, lower_bound
from coopsim.simulate.packing.sections import Keys, sections
from coopsim.trace import Trace
from coopsim.trace.alive import round_up

_WORK = (1.25, 40)  #: placements per request that a search may try; successful searches hardly turn back

Resting = Sequence[tuple[int, int]]  #: (offset, bytes) of blocks that stay
Gone = tuple[int, int, int]  #: (offset, bytes, number of the request before which the block is freed)
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cycle:
    """The items of a cycle that need addresses.

    request: by item, the number of its request; -1 for a block from before the step that no request makes. left:
    (request, until) of the blocks that the next step begins with; `until` is the number of the request of that step
    before which they are freed.
    """

    items: Items
    request: Ints
    left: list[tuple[int, int]]


def cycle_of(asked: Requests) -> Cycle:
    """The cycle of a step's requests, as items with sizes and lifetimes but no addresses yet.

    Optimizer state that is made in the step and stays for good is left out.
    """
    n = len(asked.nbytes)
    ends: dict[int, list[int]] = defaultdict(list)
    for i in range(n):
        if asked.until[i] >= TO_THE_END and not asked.state[i]:
            ends[asked.nbytes[i]].append(i)
    left: list[tuple[int, int]] = []
    lone: list[tuple[int, int]] = []  # bytes, until: left by nobody that is known
    for nbytes, until in asked.initial:
        if ends[nbytes]:
            left.append((ends[nbytes].pop(0), until))
        else:
            lone.append((nbytes, until))
    cuts = {0, max((until for _, until in left), default=0)}
    return min((_cut(asked, left, lone, cut) for cut in sorted(cuts)), key=lambda cycle: lower_bound(cycle.items))


def _cut(asked: Requests, left: list[tuple[int, int]], lone: list[tuple[int, int]], cut: int) -> Cycle:
    n = len(asked.nbytes)
    end = cut + n
    goes = dict(left)
    rows = []  # bytes, from, until, request
    for i, nbytes in enumerate(asked.nbytes):
        stays = asked.until[i] >= TO_THE_END
        if stays and asked.state[i]:
            continue
        until = n + goes[i] if i in goes else end if stays else asked.until[i]
        start, until = (i + n, until + n) if i < cut and i not in goes else (i, until)
        rows.append((nbytes, start, until, i) if until <= end else (nbytes, cut, end, i))
    for nbytes, until in lone:
        start, until = (n, n + until) if until <= cut else (cut, end)
        rows.append((nbytes, start, until, -1))
    found = np.array(rows, np.int64).reshape(-1, 4)
    found[:, 2] = np.maximum(found[:, 2], found[:, 1] + 1)
    return Cycle(Items.of(found[:, 0], found[:, 1], found[:, 2]), found[:, 3], left)


@dataclass(frozen=True)
class Places:
    """Addresses of a step's requests.

    offset: of each request; -1 if it has none below the limit. height: the end of the highest block. needed: the height
    if all requests had addresses. bound: a lower bound on it. left: the blocks that the next step begins with, if this
    step's addresses were these.
    """

    offset: list[int]
    height: int
    needed: int
    bound: int
    left: list[Gone]


def place(asked: Requests, resting: Resting, limit: int, coming: int = 0) -> Places:
    """Addresses for a cycle of equal steps: within the largest hole between `resting` blocks, or within all holes.

    A step that makes permanent state, as an optimizer's first, is no cycle: its state gets the lowest addresses.
    coming: bytes to leave free below the limit, for blocks of others that are still to be allocated and stay.
    """
    found = _place(asked, resting, limit - coming)
    return replace(found, needed=found.needed + coming, bound=found.bound + coming)


def _place(asked: Requests, resting: Resting, limit: int) -> Places:
    low, high = _hole(resting, limit)
    state = _state(asked)
    if state.any():
        return _place_once(asked, state, resting, low)
    cycle = cycle_of(asked)
    items = cycle.items
    found = _search(items, high - low)
    if found is not None:
        found += low
    else:
        holes = [(0, low), (high, limit - high)], resting
        found = min((_greedy(items, _taken(blocks)) for blocks in holes), key=_top(items))
    offset = np.full(len(asked.nbytes), -1)
    ours = cycle.request >= 0
    offset[cycle.request[ours]] = np.where(found + items.bytes <= limit, found, -1)[ours]
    left = [(int(offset[i]), asked.nbytes[i], until) for i, until in cycle.left if offset[i] >= 0]
    bound = sum(n for _, n in resting) + lower_bound(items)
    return Places(offset.tolist(), _height(asked, offset), height(items, found), bound, left)


def _place_once(asked: Requests, state: Any, resting: Resting, low: int) -> Places:
    nbytes, start = np.array(asked.nbytes, np.int64), np.arange(len(asked.nbytes))
    until = np.minimum(asked.until, len(nbytes))
    offset = np.full(len(nbytes), -1)
    offset[state] = low + np.cumsum(nbytes[state]) - nbytes[state]
    items = Items.of(nbytes[~state], start[~state], until[~state])
    offset[~state] = _greedy(items, np.concatenate([_taken(resting), _rows(offset, nbytes, start, until, state)]))
    all_of_it = Items.of(nbytes, start, until)
    bound = sum(n for _, n in resting) + lower_bound(all_of_it)
    return Places(offset.tolist(), _height(asked, offset), height(all_of_it, offset), bound, [])


def around(asked: Requests, places: Places, others: Sequence[Gone], resting: Resting, limit: int, first: int) -> Places:
    """`places`, changed for one step at whose start the blocks `others` lie elsewhere than the cycle has them.

    Of the requests from number `first` on, those whose addresses these blocks occupy get others, or -1 where there is
    no room. resting: blocks that stay. limit: the end of the arena.
    """
    nbytes, until = np.array(asked.nbytes, np.int64), np.minimum(asked.until, len(asked.until))
    start = np.arange(len(nbytes))
    offset = np.array(places.offset, np.int64)
    coming = start >= first
    offset[offset + nbytes > limit] = -1
    moved = coming & (offset < 0)
    for at, size, goes in others:
        moved |= coming & (offset >= 0) & (start < goes) & (offset < at + size) & (offset + nbytes > at)
    there = np.array([(at, at + size, goes, -1) for at, size, goes in others], np.int64).reshape(-1, 4)
    there = np.concatenate([there, _taken(resting)])
    for anew in (False, True):
        moved |= coming & ~_state(asked) & anew
        items = Items.of(nbytes[moved], start[moved], until[moved])
        taken = np.concatenate([there, _rows(offset, nbytes, start, until, coming & ~moved)])
        found = _greedy(items, taken) if anew else fit(items, _largest(items), best=True, around=_sorted(taken))
        if height(items, found) <= limit:
            break
    offset[moved] = np.where(found + items.bytes <= limit, found, -1)
    return Places(offset.tolist(), _height(asked, offset), places.needed, places.bound, places.left)


def _state(asked: Requests) -> Any:
    """A mask of the requests that make permanent state."""
    return np.array(asked.state, bool) & (np.array(asked.until, np.int64) >= TO_THE_END)


def stays(asked: Requests, trace: Trace, others: int) -> int:
    """Bytes of the blocks that exist before a step and stay through it, each rounded up to a multiple of 512.

    others: bytes that are not the program's, such as cuBLAS's workspaces.
    """
    sizes = (round_up(n, GRANULE) for n in trace.bytes[trace.alive_at_start].tolist())
    return int(round_up(others, GRANULE) + sum(sizes) - sum(n for n, _ in asked.initial))


def _hole(resting: Resting, limit: int) -> tuple[int, int]:
    """The largest hole between resting blocks, as (from, to)."""
    edges = [0, *(edge for at, nbytes in sorted(resting) for edge in (at, at + nbytes)), limit]
    return max(((low, max(low, high)) for low, high in zip(edges[::2], edges[1::2], strict=True)), key=_length)


def _length(hole: tuple[int, int]) -> int:
    return hole[1] - hole[0]


def _search(items: Items, room: int) -> Ints | None:
    keys = Keys(items, sections(items))
    search = ExactSearch(items, keys.sections)
    for work in _WORK:
        for order in (keys.order(kind) for kind in range(3)):
            outcome, _, offset, _ = search.below(room, order, round(work * len(items)), jump=True)
            if outcome == FOUND:
                return offset
    return None


def _greedy(items: Items, taken: Ints) -> Ints:
    """The lowest of several greedy plans around the rows `taken`."""
    keys, taken = Keys(items, sections(items)), _sorted(taken)
    tries = (fit(items, order, best=best, around=taken) for order in keys.greedy() for best in (False, True))
    return min(tries, key=_top(items))


def _top(items: Items) -> Callable[[Ints], int]:
    return lambda offset: height(items, offset)


def _largest(items: Items) -> Ints:
    return np.argsort(-items.bytes, kind="stable")


def _rows(offset: Ints, nbytes: Ints, start: Ints, until: Ints, those: Any) -> Ints:
    """Rows (offset, end, until, from) of the requests in `those`, as packing.fit takes obstacles."""
    return np.stack([offset[those], (offset + nbytes)[those], until[those], start[those]], axis=1)


def _taken(blocks: Resting) -> Ints:
    """Such rows for resting blocks."""
    return np.array([(at, at + n, TO_THE_END, -1) for at, n in blocks if n > 0], np.int64).reshape(-1, 4)


def _sorted(taken: Ints) -> Ints:
    return taken[np.argsort(taken[:, 0], kind="stable")]


def _height(asked: Requests, offset: Ints) -> int:
    return int((offset + np.array(asked.nbytes, np.int64))[offset >= 0].max(initial=0))
