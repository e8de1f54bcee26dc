"""Mixtures of experts: which allocations are made in such a layer, whose sizes depend on the data.

STAlloc's release is told so by hooks of Megatron; here the modules' names tell. A layer is a module with a module
`experts` in it, and its router is not part of it.
"""

import re
from collections import defaultdict
from typing import NamedTuple

from coopsim.base.types import Phase
from coopsim.trace.requests import PHASES, Requests

_FORWARD, _BACKWARD = PHASES.index(Phase.FORWARD), PHASES.index(Phase.BACKWARD)
_EXPERTS = re.compile(r"(?:(.*)\.)?experts(?:\.|$)")
_STATIC = re.compile(r"router|gate$|shared")  #: modules of a layer whose sizes do not depend on the data


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
