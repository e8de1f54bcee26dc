"""Options of replays as a grid has them: each one value or several, checked before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from coopsim.base import budget
from coopsim.base.errors import several, unknown
from coopsim.base.types import CoopsimError, Cost
from coopsim.simulate import allocators, options
from coopsim.simulate.allocators import Allocator, CudaCaching, cuda_caching
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy

_OF_CACHING = ("torch", "alloc_conf")
NAMES = (*options.NAMES, *_OF_CACHING)


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Of a function's arguments (`locals()`), the options of replays that are given: those that are not None."""
    return {name: value for name in NAMES if (value := arguments[name]) is not None}


def products(given: Mapping[str, Any]) -> list[ReplayOptions]:
    """Every combination of the options that go with any allocator. CoopsimError for an unknown or senseless one."""
    for name in given:
        if name not in NAMES:
            raise unknown("option", name, NAMES)
    given = dict(given)
    if "host_memory" in given:
        amounts = several(given["host_memory"])
        given["host_memory"] = [budget.parse(n, None, "host_memory") if isinstance(n, str) else n for n in amounts]
    values = {name: some(name, given[name]) for name in options.NAMES if name in given}
    return [ReplayOptions(**dict(zip(values, combination, strict=True))) for combination in product(*values.values())]


def of_policy(given: ReplayOptions, policy: Policy) -> ReplayOptions:
    """The options as they are for this policy: what means nothing to it is as by default, so that it is run once."""
    default = ReplayOptions()
    nothing = () if policy.offloads else options.OF_COPIES
    if not policy.is_own and policy.cost != Cost.RANDOM:
        nothing = (*nothing, "seed")
    return replace(given, **{name: getattr(default, name) for name in nothing})


def memories(named: Sequence[str | Allocator], given: Mapping[str, Any]) -> list[Allocator]:
    """The allocators; cuda-caching by name with every combination of `torch` and `alloc_conf`.

    CoopsimError for an unknown name, a version that is not simulated, settings that it refuses.
    """
    values = {name: some(name, given[name]) for name in _OF_CACHING if name in given}
    found = {name: allocators.find(name) for name in named}
    if values and not any(isinstance(allocator, CudaCaching) for allocator in found.values()):
        raise CoopsimError(
            f"torch and alloc_conf are for the allocator cuda-caching, not for {', '.join(map(str, named))}"
        )
    caching = [cuda_caching(*pair) for pair in product(values.get("torch", [""]), values.get("alloc_conf", [""]))]
    places: list[Allocator] = []
    for name, allocator in found.items():
        places += caching if isinstance(name, str) and isinstance(allocator, CudaCaching) else [allocator]
    return places


def some(name: str, value: Any) -> list[Any]:
    """One value or several, as a list; CoopsimError if there is none."""
    values = several(value)
    if not values:
        raise CoopsimError(f"{name}: no value given")
    return values
