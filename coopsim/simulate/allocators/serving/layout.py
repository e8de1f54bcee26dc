"""The offline half of planned memory: which requests of the first steps get which places in one static pool."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import GRANULE
from coopsim.simulate.allocators.serving.plain import pages
from coopsim.simulate.packing import Items, OffsetPlan, plan
from coopsim.simulate.packing.fit import height
from coopsim.simulate.packing.items import lower_bound
from coopsim.simulate.packing.strategy import plan_around
from coopsim.trace.requests import Ints, Requests


class Place(NamedTuple):
    """Bytes of the static pool, from `address` to before `end`."""

    address: int
    end: int


class ServingPlaces:
    """What is in use of a static pool of `height` bytes, made of whole pages of 2 MiB: `used`, sorted."""

    def __init__(self, nbytes: int) -> None:
        self.height = pages(nbytes)
        self.used: list[Place] = []

    def take(self, place: Place) -> None:
        """Use a place that is free."""
        insort(self.used, place)

    def give_back(self, place: Place) -> None:
        """Free a place that is in use."""
        del self.used[bisect_left(self.used, place)]

    def is_free(self, place: Place) -> bool:
        """Whether no byte of it is in use."""
        at = bisect_left(self.used, place)
        return (at == len(self.used) or self.used[at].address >= place.end) and (
            at == 0 or self.used[at - 1].end <= place.address
        )

    def gap(self, nbytes: int, kept: Iterable[Place]) -> Place | None:
        """So many bytes of the smallest gap between what is in use and what is kept; the lowest such."""
        best: Place | None = None
        smallest, floor = self.height + 1, 0
        for place in [*sorted([*self.used, *kept]), Place(self.height, self.height)]:
            if nbytes <= place.address - floor < smallest:
                smallest, best = place.address - floor, Place(floor, floor + nbytes)
            floor = max(floor, place.end)
        return best


@dataclass(frozen=True)
class LayoutOptions:
    """`steps`: first ones that are planned. `work`: the planner's limit, in placements. `memory`: of the device."""

    steps: int = 1
    work: int = 300_000
    memory: int | None = None


class Lifetime(StrEnum):
    """How long a planned allocation lives, seen from the phases of a step."""

    PERSISTENT = "persistent"  #: beyond the planned steps
    TEMPORARY = "temporary"  #: within one op
    PHASE = "phase"  #: within one phase (forward, backward, optimizer) of a step
    GROUP = "group"  #: from one phase to another; those of the same two phases of a step are a group


@dataclass(frozen=True)
class Layout:
    """The offline plan. Planned allocations are numbered in the order of taking; times are rows of the requests.

    `bytes` are rounded up; `offset`, `start`, `end` say where and when. `lifetime` classes them; `plan` has the height
    of the static pool and the lower bound. `steps` is the first row of each planned step, and the end of the last.
    """

    bytes: Ints
    offset: Ints
    start: Ints
    end: Ints
    phase: Ints
    site: Ints
    lifetime: list[Lifetime]
    plan: OffsetPlan
    steps: list[int]

    def places(self, which: NDArray[np.bool_]) -> list[Place]:
        """The places of some of them, in the order of taking."""
        first = self.offset[which]
        return list(map(Place, first.tolist(), (first + self.bytes[which]).tolist()))

    def bytes_of(self, lifetime: Lifetime) -> int:
        """Sum of the bytes of this class."""
        return sum(int(n) for n, kind in zip(self.bytes, self.lifetime, strict=True) if kind is lifetime)


def lay_out(
    requests: Requests, options: LayoutOptions, chosen: NDArray[np.bool_] | None = None, stacked: bool = False
) -> Layout:
    """Plan what the first steps ask for; of that only the `chosen` allocations, if some are.

    `stacked`: persistent allocations lie at the bottom, one upon another, and never where others have been.
    """
    nbytes, start, end = requests.lifetimes()
    rows = np.flatnonzero(requests.step < options.steps)
    horizon = int(rows[-1]) + 1 if len(rows) else 0
    known = (start < horizon) & (True if chosen is None else chosen)
    nbytes, start = -(-nbytes[known] // GRANULE) * GRANULE, start[known]
    last = np.minimum(end[known], horizon)
    firsts = [int(np.argmax(requests.step == k)) for k in range(int(requests.step[:horizon].max(initial=-1)) + 1)]
    items = Items.of(nbytes, start, last, np.full(len(start), GRANULE))
    if stacked:
        found = _stacked(items, horizon, options.work)
    else:
        found = _by_steps_or_at_once(items, [*firsts, horizon], options.work)
    lifetime = [_class(requests, int(a), int(b), horizon) for a, b in zip(start, last, strict=True)]
    phase, site = requests.phase[start], requests.site[known]
    return Layout(nbytes, found.offset, start, last, phase, site, lifetime, found, [*firsts, horizon])


def _stacked(items: Items, horizon: int, work: int) -> OffsetPlan:
    stays = items.end >= horizon
    offset = np.cumsum(items.bytes * stays) - items.bytes
    above = plan(items[np.flatnonzero(~stays)], work)
    offset[~stays] = above.offset + int(items.bytes[stays].sum())
    bound = lower_bound(items)
    return OffsetPlan(offset, height(items, offset), bound, bound, above.work)


def _by_steps_or_at_once(items: Items, bounds: list[int], work: int) -> OffsetPlan:
    """The lower of a plan step by step, and a plan of all at once; the former, if they are equal."""
    by_steps = _step_by_step(items, bounds, work)
    if by_steps is not None and by_steps.height == by_steps.lower_bound:
        return by_steps
    at_once = plan(items, work)
    return at_once if by_steps is None or at_once.height < by_steps.height else by_steps


def _step_by_step(items: Items, bounds: list[int], work: int) -> OffsetPlan | None:
    """A plan of each step around what the steps before it have placed; None if there is one step, or no such plan.

    What stays from step to step then lies where a plan of the first step alone would have it, so that a step that is
    not known finds no less room, however many are.
    """
    offset, used = np.full(len(items), -1), 0
    if len(bounds) < 3:
        return None
    for first, following in pairwise(bounds):
        alive = np.flatnonzero((items.start < following) & (items.end > first))
        these = Items.of(
            items.bytes[alive],
            np.maximum(items.start[alive], first),
            np.minimum(items.end[alive], following),
            items.alignment[alive],
        )
        if first == bounds[0]:
            found = plan(these, work)
            offset[alive], spent = found.offset, found.work
        else:
            places, spent = plan_around(these, offset[alive], work)
            if places is None:
                return None
            offset[alive] = places
        used += spent
    bound = lower_bound(items)
    return OffsetPlan(offset, height(items, offset), bound, bound, used)


def _class(requests: Requests, start: int, end: int, horizon: int) -> Lifetime:
    if end >= horizon:
        return Lifetime.PERSISTENT
    if requests.source[start] == requests.source[end]:
        return Lifetime.TEMPORARY
    same = requests.phase[start] == requests.phase[end] and requests.step[start] == requests.step[end]
    return Lifetime.PHASE if same else Lifetime.GROUP
