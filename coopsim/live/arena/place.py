"""Assigns addresses to the requests of a planned step, around the blocks that exist when it starts. Knows no torch.

Offsets and sizes are in bytes, offsets from the arena's start; times are numbers of requests of the step. Blocks that
exist before the step and stay through it are resting. Those that a step frees were allocated by the step before: in a
cycle of equal steps, such a block is one item with one address, whose lifetime wraps around. The cycle is cut at the
start of the step, or where the last of these blocks is freed, whichever has the lower bound on memory.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import GRANULE, Role
from coopsim.live.arena.requests import TO_THE_END, Requests
from coopsim.live.plan import STAYS
from coopsim.simulate.packing.exact import FOUND, ExactSearch
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Items, lower_bound
from coopsim.simulate.packing.obstacles import obstacles
from coopsim.simulate.packing.sections import Keys, sections
from coopsim.trace import Trace
from coopsim.trace.alive import round_up

_WORK = (1.25, 40)  #: placements per item that a search may try; successful searches hardly turn back
_KEPT = 32  #: results that are cached, so that steps that begin alike are not placed again

Resting = tuple[tuple[int, int], ...]  #: (offset, bytes) of blocks that stay
Gone = tuple[int, int, int]  #: (offset, bytes, number of the request before which the block is freed)
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Places:
    """Addresses of a step's requests.

    offset: of each request; -1 if it has none below the limit. needed: the end of the highest block if all requests had
    addresses. left: of the blocks that the next step begins with, the number of the request, and that of the request of
    the next step before which they are freed. good: the numbers of the requests whose blocks later steps do not free.
    """

    offset: list[int]
    needed: int
    left: list[tuple[int, int]]
    good: list[int]


@lru_cache(_KEPT)
def place(asked: Requests, resting: Resting, limit: int) -> Places:
    """Addresses for a cycle of equal steps, around resting blocks.

    What the step makes for good, as an optimizer's state in its first step, gets the lowest addresses.
    """
    items, left = cycle_of(asked)
    taken = _taken(resting)
    offset = np.zeros(len(items), np.int64)
    good = _for_good(asked, {i for i, _ in left})
    offset[good] = fit(items[good], np.arange(len(good)), best=False, around=_sorted(taken))
    taken = np.concatenate([taken, _rows(items[good], offset[good])])
    rest = np.setdiff1d(np.arange(len(items)), good)
    offset[rest] = _around(items[rest], taken, limit)
    found = np.where(offset + items.bytes <= limit, offset, -1)[: len(asked.nbytes)].tolist()
    return Places(found, height(items, offset), left, good)


@lru_cache(_KEPT)
def place_rest(
    asked: Requests, resting: Resting, limit: int, gone: tuple[Gone, ...], first: int, kept: int = 0
) -> Places:
    """Addresses for one step, from its request number `first` on, whose start has left these blocks to be freed.

    They are the cycle's, where nothing is in the way. kept: nothing is freed before the request of this number.
    """
    usual = place(asked, resting, limit)
    if not kept and set(gone) <= {(usual.offset[i], asked.nbytes[i], goes) for i, goes in usual.left}:
        return usual
    n = len(asked.nbytes)
    start, until, offset = np.arange(n), np.minimum(asked.until, n), np.array(usual.offset, np.int64)
    longer = (start < kept) & (until < kept)
    items = Items.of(asked.nbytes, start, np.where(longer, kept, until))
    there = np.array([(at, at + nbytes, goes, -1) for at, nbytes, goes in gone], np.int64).reshape(-1, 4)
    moved = longer | (offset < 0)
    for low, high, goes, _ in there:
        moved |= (start < goes) & (offset < high) & (offset + items.bytes > low)
    coming = start >= first
    for some in (coming & moved, coming & ~np.isin(start, usual.good)):  # where there is no room for those, more
        stay = coming & ~some
        found = _around(items[some], np.concatenate([there, _taken(resting), _rows(items[stay], offset[stay])]), limit)
        if height(items[some], found) <= limit:
            break
    offset[some] = np.where(found + items.bytes[some] <= limit, found, -1)
    return replace(usual, offset=offset.tolist())


def stays(asked: Requests, trace: Trace, others: int) -> int:
    """Bytes of the blocks that exist before a step and stay through it, each rounded up to a multiple of 512.

    others: bytes that are not the program's, such as cuBLAS's workspaces.
    """
    sizes = (round_up(n, GRANULE) for n in trace.bytes[trace.alive_at_start].tolist())
    return int(round_up(others, GRANULE) + sum(sizes) - sum(n for n, _ in asked.initial))


def cycle_of(asked: Requests) -> tuple[Items, list[tuple[int, int]]]:
    """The items of a cycle, which need addresses, and the blocks that the next step begins with.

    The first items are the step's requests; the others are blocks from before the step that no request makes. Of the
    blocks, the number of the request, and that of the request of the next step before which they are freed.
    """
    ends: dict[int, list[int]] = defaultdict(list)
    for i, nbytes in enumerate(asked.nbytes):
        if asked.until[i] >= TO_THE_END and asked.role[i] not in STAYS:
            ends[nbytes].append(i)
    left: list[tuple[int, int]] = []
    lone: list[tuple[int, int]] = []  # bytes, until: left by nobody that is known
    for nbytes, until in asked.initial:
        if ends[nbytes]:
            left.append((ends[nbytes].pop(0), until))
        else:
            lone.append((nbytes, until))
    cuts = {0, max((until for _, until in left), default=0)}
    return min((_cut(asked, left, lone, cut) for cut in sorted(cuts)), key=lower_bound), left


def _cut(asked: Requests, left: list[tuple[int, int]], lone: list[tuple[int, int]], cut: int) -> Items:
    n = len(asked.nbytes)
    end = cut + n
    start, until = np.arange(n), np.array(asked.until, np.int64)
    until[until >= TO_THE_END] = end
    wraps = np.zeros(n, bool)
    for i, goes in left:
        wraps[i], until[i] = True, n + goes
    next_time = (start < cut) & ~wraps
    start, until = start + n * next_time, until + n * next_time
    start, until = np.where(until > end, cut, start), np.minimum(until, end)
    short = [goes <= cut for _, goes in lone]
    lone_start = [n if s else cut for s in short]
    lone_until = [n + max(goes, 1) if s else end for s, (_, goes) in zip(short, lone, strict=True)]
    nbytes = [*asked.nbytes, *(nbytes for nbytes, _ in lone)]
    return Items.of(nbytes, [*start, *lone_start], [*until, *lone_until])


def _for_good(asked: Requests, left: Collection[int]) -> list[int]:
    """The numbers of the requests whose blocks later steps do not free: state first, then from the smallest up.

    left: those that the next step frees. Of others, too, it may free gradients and inputs.
    """
    ends = [i for i, until in enumerate(asked.until) if until >= TO_THE_END and i not in left]
    good = [i for i in ends if asked.role[i] not in (Role.GRADIENT, Role.INPUT)]
    return sorted(good, key=lambda i: (asked.role[i] not in STAYS, asked.nbytes[i]))


def _around(items: Items, taken: Ints, limit: int) -> Ints:
    """Offsets around the rows `taken`: below the limit, if such are found, else the lowest of several greedy plans."""
    keys, taken = Keys(items, sections(items)), _sorted(taken)
    standing = Items.of(taken[:, 1] - taken[:, 0], taken[:, 3], taken[:, 2])
    search = ExactSearch(items, keys.sections, obstacles(items, keys.sections, standing, taken[:, 0]))
    for work in _WORK:
        for order in (keys.order(kind) for kind in range(3)):
            outcome, _, offset, _ = search.below(limit, order, round(work * len(items)), jump=True)
            if outcome == FOUND:
                return offset
    tries = (fit(items, order, best=best, around=taken) for order in keys.greedy() for best in (False, True))
    return min(tries, key=lambda offset: height(items, offset))


def _rows(items: Items, offset: Ints) -> Ints:
    """Rows (offset, end, until, from) of items at these offsets, as packing.fit takes obstacles."""
    return np.stack([offset, offset + items.bytes, items.end, items.start], axis=1)


def _taken(blocks: Resting) -> Ints:
    """Such rows for resting blocks."""
    return np.array([(at, at + n, TO_THE_END, -1) for at, n in blocks if n > 0], np.int64).reshape(-1, 4)


def _sorted(taken: Ints) -> Ints:
    return taken[np.argsort(taken[:, 0], kind="stable")]
