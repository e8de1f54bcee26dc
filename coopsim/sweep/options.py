"""Options of a replay as a grid has them: each one value or several, checked before anything runs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from coopsim import allocators
from coopsim.errors import unknown
from coopsim.types import CoopsimError

DECIDE_BY = ("cost", "bytes", "flops", "unit")
RANDOM = ("recompute", "keep")
CACHING = "cuda-caching"


def _steps(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise CoopsimError(f"steps: {value!r} is not a whole number from 1 to a million")
    return value


def _overhead_limit(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        raise CoopsimError(f"overhead_limit: {value!r} is not a number from 1")
    return float(value)


def _one_of(name: str, known: Sequence[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in known:
            raise unknown(name, str(value), known)
        return str(value)

    return check


def _text(name: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise CoopsimError(f'{name}: {value!r} is not text; write it in quotes, as "{value}"')
        return value

    return check


#: What each option must be, and what it is where none is given.
OPTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "steps": (_steps, 10),
    "decide_by": (_one_of("decide_by", DECIDE_BY), "cost"),
    "random": (_one_of("random", RANDOM), "recompute"),
    "overhead_limit": (_overhead_limit, 10.0),
}
_OF_CACHING = ("torch", "alloc_conf")
NAMES = (*OPTIONS, *_OF_CACHING)


def several(value: Any) -> list[Any]:
    """One value or several, as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def products(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the options that go with any allocator. CoopsimError for an unknown or senseless one."""
    for name in options:
        if name not in NAMES:
            raise unknown("option", name, NAMES)
    values = []
    for name, (check, default) in OPTIONS.items():
        given = several(options.get(name, default))
        if not given:
            raise CoopsimError(f"{name}: no value given")
        values.append([check(value) for value in given])
    return [dict(zip(OPTIONS, combination, strict=True)) for combination in product(*values)]


def memories(names: Sequence[str], options: Mapping[str, Any]) -> list[tuple[str, dict[str, str | None]]]:
    """The allocators; cuda-caching with every combination of `torch` and `alloc_conf`.

    CoopsimError for an unknown name, a version that is not simulated, settings that it refuses.
    """
    from coopsim.allocators.caching import conf, version

    given = {name: several(options[name]) for name in _OF_CACHING if name in options}
    if given and CACHING not in names:
        raise CoopsimError(f"torch and alloc_conf are of the allocator {CACHING}, not of {', '.join(names)}")
    for name, values in given.items():
        if not values:
            raise CoopsimError(f"{name}: no value given")
        for value in values:
            _text(name)(value)
    pairs = list(product(given.get("torch", [version.NEWEST]), given.get("alloc_conf", [""])))
    for torch, text in pairs:
        conf.parse(text, version.find(torch))
    found: list[tuple[str, dict[str, str | None]]] = []
    for name in names:
        if allocators.find(name).name == CACHING:
            found += [(name, {"torch": torch, "alloc_conf": text}) for torch, text in pairs]
        else:
            found.append((name, {"torch": None, "alloc_conf": None}))
    return found
