"""`planned:release`: planned memory as the released program of STAlloc has it (infinigence/STAlloc). Own code.

Two steps are planned. The k-th request gets the place of the k-th planned one, if that has the same size and its place
is free; after the last planned one comes the first of the second step again. All else goes to a fallback, as do the
requests in layers of experts, which are not planned. Requests up to 512 B have a pool of their own. What stays from
step to step lies below all else. The plan itself is our planner's.

Sizes in a layer of experts depend on the data. STAlloc's release is told of such layers by hooks of Megatron; here the
modules' names tell. A layer is a module with a module `experts` in it, and its router is not part of it.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import MIB, Phase
from coopsim.simulate.allocators.serving.layout import Layout, LayoutOptions, Place, ServingPlaces, lay_out
from coopsim.simulate.allocators.serving.plain import BlockInUse, Pools, pages, rounded
from coopsim.simulate.allocators.serving.result import Result, ServingMeter, ServingOutOfMemory
from coopsim.trace.requests import PHASES, Requests

_FORWARD, _BACKWARD = PHASES.index(Phase.FORWARD), PHASES.index(Phase.BACKWARD)
_EXPERTS = re.compile(r"(?:(.*)\.)?experts(?:\.|$)")
_STATIC = re.compile(r"router|gate$|shared")  #: modules of a layer whose sizes do not depend on the data
_TINY = 512  #: bytes of the largest request that has a slot in the pool of small ones
_STEPS = 2  #: that are planned
_LARGE_ROUND = 512  #: bytes; segments of the fallback from 10 MiB on are a multiple of it


class Inside(NamedTuple):
    """Of an allocation: its layer, and whether an expert made it."""

    layer: str
    expert: bool


class ExpertRows(NamedTuple):
    """From one row of the requests to before another."""

    first: int
    end: int


Lifespans = dict[tuple[int, Inside], ExpertRows]


def inside(requests: Requests) -> list[Inside | None]:
    """By allocation: the layer of experts that it is made in; None if in none."""
    modules = [label.partition(" ")[2] for label in requests.labels]
    layers = {found[1] or "" for module in set(modules) if (found := _EXPERTS.match(module))}
    of_module = {module: _inside(module, layers) for module in set(modules)}
    return [of_module[module] for module in modules]


def _inside(module: str, layers: set[str]) -> Inside | None:
    for layer in layers:
        if module == layer:
            return Inside(layer, expert=False)
        if module.startswith(f"{layer}." if layer else ""):
            child = module[len(layer) + bool(layer) :].partition(".")[0]
            return None if _STATIC.search(child) else Inside(layer, expert=child == "experts")
    return None


def lifespans(requests: Requests, layers: list[Inside | None]) -> Lifespans:
    """By step and layer: for how long memory of the static pool must be free to be used there.

    For experts, in the forward pass: to their last request in the backward pass. For the rest of the layer, in the
    backward pass: to the end of what it takes there.
    """
    _, start, end = requests.lifetimes()
    found: dict[tuple[int, Inside], list[int]] = defaultdict(list)
    for layer, first, last in zip(layers, start.tolist(), end.tolist(), strict=True):
        if layer is not None and may_reuse(layer, int(requests.phase[first])):
            found[int(requests.step[first]), layer] += [first, first + 1 if layer.expert else last]
    return {key: ExpertRows(min(rows), max(rows)) for key, rows in found.items()}


def may_reuse(layer: Inside, phase: int) -> bool:
    """Whether a request in this layer may use the static pool: of an expert, or in the backward pass."""
    return layer.expert or phase == _BACKWARD


def needs_lifespan(layer: Inside, phase: int) -> bool:
    """Whether it may do so only where the plan has nothing meanwhile; an expert's in backward may anywhere."""
    return not layer.expert or phase == _FORWARD


@dataclass(frozen=True)
class ReleaseSettings:
    """`reuse`: requests in layers of experts may use the static pool, as with STALLOC_REUSE_STATIC.

    `max_split`: of the fallback. `memory`: of the device; both in bytes. `work`: the planner's limit, in placements.
    """

    reuse: bool = False
    max_split: int = 128 * MIB
    work: int = 300_000
    memory: int | None = None


class Slots:
    """512 bytes for each request up to that size: twice as many as planned; when all are used, as many again."""

    def __init__(self, meter: ServingMeter, planned: int) -> None:
        self.meter, self.free, self.total = meter, 0, 0
        self._add(2 * planned)

    def take(self) -> None:
        """Use one."""
        if not self.free:
            self._add(max(self.total, 1))
        self.free -= 1
        self.meter.add("allocated", _TINY)

    def give_back(self) -> None:
        """Free one."""
        self.free += 1
        self.meter.add("allocated", -_TINY)

    def _add(self, slots: int) -> None:
        if slots:
            self.meter.reserve(pages(slots * _TINY))
        self.free += slots
        self.total += slots


class Released:
    """The online allocator. `take` gives a handle that `give_back` wants; None is a slot."""

    def __init__(self, requests: Requests, settings: ReleaseSettings) -> None:
        self.settings, self.meter = settings, ServingMeter()
        self.inside = inside(requests)
        self.asked, start, _ = requests.lifetimes()
        chosen = (self.asked > _TINY) & np.array([layer is None for layer in self.inside], np.bool_)
        step = requests.step[start]
        self.layout: Layout = lay_out(requests, LayoutOptions(_STEPS, settings.work), chosen, stacked=True)
        self.sizes = self.asked[chosen & (step < _STEPS)].tolist()
        self.repeats = int(np.count_nonzero(chosen & (step == 0)))  # what is planned from here on is repeated
        self.next = 0
        self.lifespans = lifespans(requests, self.inside) if settings.reuse else {}
        self.places = ServingPlaces(self.layout.plan.height)
        self.count = {"planned": 0, "mismatches": 0, "occupied": 0, "reused": 0, "fallback": 0}
        if settings.memory is not None and self.places.height > settings.memory:
            raise ServingOutOfMemory(self.places.height, 0, settings.memory)
        if self.places.height:
            self.meter.reserve(self.places.height)
        self.slots = Slots(self.meter, _most_at_once(requests, self.asked <= _TINY))
        self.fallback = Pools(self.meter, settings.memory, settings.max_split, _LARGE_ROUND)

    def take(self, number: int, stream: int, step: int, phase: int) -> Place | BlockInUse | None:
        """Memory for an allocation. Raises OutOfMemory if the device has no more."""
        nbytes, layer = int(self.asked[number]), self.inside[number]
        if nbytes <= _TINY:
            self.slots.take()
            return None
        if layer is None:
            place = self._planned(nbytes)
        else:
            place = self._reused(rounded(nbytes), layer, step, phase)
        if place is None:
            self.count["fallback"] += 1
            return self.fallback.take(nbytes, 0 if layer is None else stream)
        self.places.take(place)
        self.meter.add("allocated", place.end - place.address)
        return place

    def give_back(self, handle: Place | BlockInUse | None) -> None:
        """Free what `take` gave."""
        if handle is None:
            self.slots.give_back()
        elif isinstance(handle, BlockInUse):
            handle.pool.give_back(handle.block)
        else:
            self.places.give_back(handle)
            self.meter.add("allocated", handle.address - handle.end)

    def _planned(self, nbytes: int) -> Place | None:
        """The place of the next planned request, whatever it was for."""
        k = self.next
        if k == len(self.sizes):
            k = self.repeats
        self.next = k + 1
        if k >= len(self.sizes) or self.sizes[k] != nbytes:
            self.count["mismatches"] += 1
            return None
        address = int(self.layout.offset[k])
        place = Place(address, address + rounded(nbytes))
        found = self.places.is_free(place)
        self.count["planned" if found else "occupied"] += 1
        return place if found else None

    def _reused(self, nbytes: int, layer: Inside, step: int, phase: int) -> Place | None:
        if not self.settings.reuse or not may_reuse(layer, phase):
            return None
        kept: list[Place] = []
        if needs_lifespan(layer, phase):
            rows = self.lifespans.get((min(step, _STEPS - 1), layer))
            if rows is None:
                return None
            alive = (self.layout.start < rows.end) & (self.layout.end > rows.first)
            kept = self.layout.places(alive)
        place = self.places.gap(nbytes, kept)
        self.count["reused"] += place is not None
        return place


def run(requests: Requests, settings: ReleaseSettings | None = None) -> Result:
    """Plan the first two steps, then serve all requests; raises OutOfMemory where the device's memory ends."""
    allocator = Released(requests, settings or ReleaseSettings())
    handles: dict[int, Place | BlockInUse | None] = {}
    for take, number, nbytes, stream, step, phase, _ in requests.memory():
        if take:
            handles[number] = allocator.take(number, stream, step, phase)
            allocator.meter.add("requested", nbytes)
        else:
            allocator.meter.add("requested", -nbytes)
            allocator.give_back(handles.pop(number))
    plan = allocator.layout.plan
    facts = {"pool_bytes": allocator.places.height, "plan_bytes": plan.height, "plan_bound": plan.lower_bound}
    return allocator.meter.result("planned:release", allocator.count | facts)


def _most_at_once(requests: Requests, chosen: NDArray[np.bool_]) -> int:
    """How many of the chosen allocations the planned steps hold at once, at most."""
    _, start, end = requests.lifetimes()
    change = np.zeros(len(requests) + 1, np.int64)
    np.add.at(change, start[chosen], 1)
    np.add.at(change, end[chosen], -1)
    return int(np.cumsum(change[:-1])[requests.step < _STEPS].max(initial=0))
