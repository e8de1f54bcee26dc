"""Memory planned before it is asked for, after STWeaver / STAlloc (arXiv 2507.16274). Own code.

Offline, the requests of some first steps are classed by lifetime and given places in one static pool by the planner.
Online, each request is matched with the plan: the next planned one of its size, at its site or at least in its phase,
takes its planned place, if that is free; so does a smaller one of the same site. A step that is not planned goes by
the planned one that serves the others best. What the plan has no place for (a
*dynamic* request)

- *reuses* planned memory: where the pool is free now, and by the plan for as long as such requests lived in it;
- goes to a fallback with segments and best fit, if there is a hole for it, or as long as it is small beside the pool;
- *borrows* what is free now and kept for others not much larger, whose owners may come to be dynamic in turn;
- lets the fallback grow.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.allocators.serving.layout import Layout, LayoutOptions, Place, ServingPlaces, lay_out
from coopsim.simulate.allocators.serving.plain import BlockInUse, Pools, rounded, segment_bytes
from coopsim.simulate.allocators.serving.result import Result, ServingMeter, ServingOutOfMemory
from coopsim.trace.requests import Requests

#: Planned requests up to so many times larger lose their place to one that would else make the fallback grow. Chosen on
#: the traces of SPOS and of a mixture of experts, where 1, 2 and 4 reserve up to 6 % more.
_LENT = 8
#: Part of the pool that the fallback may grow to before places are borrowed: what is displaced for little may come to
#: need much. Chosen on the same traces, where 0.01 to 0.05 differ by less than half a point from two planned steps on.
_SPARE = 0.02


class PlannedAllocator:
    """The online allocator. `take` gives a handle that `give_back` wants; `used` is what is handed out of the pool."""

    def __init__(self, layout: Layout, memory: int | None = None, follow: int = -1) -> None:
        self.layout = layout
        self.follow = follow % (len(layout.steps) - 1) if len(layout.steps) > 1 else 0
        self.meter = ServingMeter()
        self.places = ServingPlaces(layout.plan.height)
        self.used, self.height = self.places.used, self.places.height
        self.fallback = Pools(self.meter, memory)
        self.count = {"planned": 0, "reused": 0, "borrowed": 0, "fallback": 0}
        self.pending = np.zeros(len(layout.bytes), np.bool_)  # planned in this step, and not yet asked for
        self.by_bytes: dict[tuple[int, int], list[int]] = {}  # with the phase: what is planned in this step
        self.by_site: dict[int, list[int]] = {}
        self.lives: dict[tuple[int, int], int] = {}  # by phase and bytes, and by (-2, site): longest life in it
        self.now = self.until = 0  # how far the planned step has been followed, and its end: rows
        if self.height:
            if not self.fallback.has_room(self.height):
                raise ServingOutOfMemory(self.height, 0, memory or 0)
            self.meter.reserve(self.height)

    def begin(self, step: int) -> None:
        """A step begins; those beyond the planned ones follow one of these."""
        bounds = self.layout.steps
        followed = step if step < len(bounds) - 1 else self.follow
        self.now, self.until = bounds[followed], bounds[followed + 1]
        self.pending = (self.layout.start >= self.now) & (self.layout.start < self.until)
        self.by_bytes, self.by_site, self.lives = defaultdict(list), defaultdict(list), {}
        for i in np.flatnonzero(self.pending).tolist():
            phase, nbytes, site = (int(a[i]) for a in (self.layout.phase, self.layout.bytes, self.layout.site))
            self.by_bytes[phase, nbytes].append(i)
            self.by_site[site].append(i)
            for key in ((phase, nbytes), (-2, site)):
                life = min(int(self.layout.end[i]), self.until) - int(self.layout.start[i])
                self.lives[key] = max(self.lives.get(key, 0), life)

    def take(self, nbytes: int, phase: int, site: int, stream: int = 0) -> Place | BlockInUse:
        """Memory for a request. Raises OutOfMemory if the device has no more."""
        nbytes = rounded(nbytes)
        place = self._planned(nbytes, phase, site)
        if place is None:
            soon = self._soon(self._life(nbytes, phase, site))
            place = self._gap(nbytes, soon, "reused")
            if place is None and not self.fallback.has_hole(nbytes, stream) and not self._may_grow(nbytes):
                place = self._gap(nbytes, soon & (self.layout.bytes > _LENT * nbytes), "borrowed")
        if place is None:
            self.count["fallback"] += 1
            return self.fallback.take(nbytes, stream)
        self.places.take(place)
        self.meter.add("allocated", nbytes)
        return place

    def _may_grow(self, nbytes: int) -> bool:
        """Whether the fallback, with a segment for so many bytes, is still small beside the pool."""
        return self.meter.now["reserved"] - self.height + segment_bytes(nbytes) <= _SPARE * self.height

    def give_back(self, handle: Place | BlockInUse) -> None:
        """Free what `take` gave."""
        if isinstance(handle, BlockInUse):
            handle.pool.give_back(handle.block)
            return
        self.places.give_back(handle)
        self.meter.add("allocated", handle.address - handle.end)

    def _planned(self, nbytes: int, phase: int, site: int) -> Place | None:
        """The place that the plan has for this request, or one that it has for a larger one of this site."""
        here = [i for i in self.by_site.get(site, []) if self.pending[i]]
        alike = [i for i in self.by_bytes.get((phase, nbytes), []) if self.pending[i]]
        for i in (*(i for i in here if self.layout.bytes[i] == nbytes), *alike):
            if (place := self._free_place(i, nbytes)) is not None:
                return self._follow(i, place)
        if here:  # it comes instead of this one, whose place is kept for it no longer
            return self._follow(here[0], self._free_place(here[0], nbytes))
        return None

    def _follow(self, i: int, place: Place | None) -> Place | None:
        self.pending[i] = False
        self.now = int(self.layout.start[i])
        self.count["planned"] += place is not None
        return place

    def _free_place(self, i: int, nbytes: int) -> Place | None:
        """The place of planned request i, if it is free and large enough."""
        address = int(self.layout.offset[i])
        place = Place(address, address + nbytes)
        return place if nbytes <= self.layout.bytes[i] and self.places.is_free(place) else None

    def _life(self, nbytes: int, phase: int, site: int) -> int:
        """For how many rows of the plan a dynamic request is foreseen to live: to the end of the step, if unknown."""
        return self.lives.get((-2, site), self.lives.get((phase, nbytes), self.until - self.now))

    def _soon(self, life: int) -> NDArray[np.bool_]:
        """Which planned requests come within so many rows."""
        start = self.layout.start
        return self.pending & (start > self.now) & (start <= min(self.now + life, self.until))

    def _gap(self, nbytes: int, kept: NDArray[np.bool_], how: str) -> Place | None:
        """The smallest gap between what is in use and the places that are kept for planned requests."""
        best = self.places.gap(nbytes, self.layout.places(kept))
        self.count[how] += best is not None
        return best


def run(requests: Requests, options: LayoutOptions | None = None) -> Result:
    """Plan the first steps, then serve all requests; raises OutOfMemory where the device's memory ends."""
    options = options or LayoutOptions()
    layout = lay_out(requests, options)
    allocator = PlannedAllocator(layout, options.memory, _like_the_rest(requests, layout))
    _serve(requests, allocator)
    facts = {
        "follow": allocator.follow,
        "pool_bytes": allocator.height,
        "plan_bytes": layout.plan.height,
        "plan_bound": layout.plan.lower_bound,
    }
    return allocator.meter.result("planned", allocator.count | facts)


def _serve(
    requests: Requests, allocator: PlannedAllocator, steps: int | None = None, follow: int | None = None
) -> None:
    """Serve the requests, or those of the first `steps`; `follow`: as if each were a step like this planned one."""
    handles: dict[int, Place | BlockInUse] = {}
    now = -1
    for take, number, nbytes, stream, step, phase, site in requests.memory():
        if step > now:
            now = step
            if step == steps:
                return
            allocator.begin(step if follow is None else follow)
        if take:
            handles[number] = allocator.take(nbytes, phase, site, stream)
            allocator.meter.add("requested", nbytes)
        else:
            allocator.meter.add("requested", -nbytes)
            allocator.give_back(handles.pop(number))


def _like_the_rest(requests: Requests, layout: Layout) -> int:
    """The planned step by which the planned ones, taken for unknown, are served in the least memory; the last of such.

    Steps that are unknown follow it.
    """
    steps = len(layout.steps) - 1
    reserved = []
    for follow in range(steps if steps > 1 else 0):
        allocator = PlannedAllocator(layout)
        _serve(requests, allocator, steps, follow)
        reserved.append(allocator.meter.peak["reserved"])
    return max((k for k, n in enumerate(reserved) if n == min(reserved)), default=steps - 1)
