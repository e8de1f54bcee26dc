"""The base class of policies with parameters, state, events and chance (docs/extend.md)."""

import copy
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.simulate.policies._compiled import compiled
from coopsim.simulate.policies._space import CHOICES, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator
else:
    Generator = Any  # so that typing.get_type_hints works without importing NumPy

_TYPES: dict[Any, type] = {kind: kind for kind in (float, int, bool, str)} | {
    kind.__name__: kind for kind in (float, int, bool, str)
}
#: The methods that a replay calls, with the names of their arguments.
EVENTS: dict[str, tuple[str, ...]] = {
    "start": ("memory",),
    "step": ("step",),
    "op": ("op",),
    "allocated": ("value",),
    "used": ("value", "now"),
    "dropped": ("value",),
    "evicted": ("value",),
    "recomputed": ("value",),
}
ANSWERS: dict[str, tuple[str, ...]] = {"choose": ("memory", "need"), "score": ("cost", "recency", "nbytes", "hole")}
_NAMES = {*EVENTS, *ANSWERS, *CHOICES, "memory", "rng", "name", "policy", "parameters", "given", "for_replay"}
_REQUIRED = object()


class EvictionPolicy:
    """A policy of your own: a class whose annotated attributes are its parameters.

    Each replay makes an instance of its own, with the parameters and nothing else, calls `start(memory)`, tells the
    instance what happens (`step`, `op`, `allocated`, `used`, `dropped`, `evicted`, `recomputed`, where the class
    defines them), and asks `choose(memory, need)` for values to evict, or `score(cost, recency, nbytes, hole)` for
    which goes first. `self.memory` is what `start` was given; `self.rng` a NumPy generator, seeded with the replay's
    seed. Choices of a Policy (`placement`, `in_place`, ...) are class attributes. docs/extend.md has all of it.

    An instance of yours stands for the class with these parameters, `Gds(alpha=0.7)`, and cannot be changed.
    CoopsimError for a parameter that there is not, or of another type than float, int, bool or str.
    """

    memory: ClassVar[Any]
    rng: ClassVar[Generator]
    name: ClassVar[str] = ""
    if TYPE_CHECKING:
        choose: Callable[[Any, Any, int], Iterable[int]]

    def __new__(cls, *_: object, **__: object) -> Self:
        """Checked before any __init__ of the class's own runs."""
        _check(cls)
        return super().__new__(cls)

    def __init__(self, **parameters: bool | float | str) -> None:
        kind = type(self)
        kinds = kinds_of(kind)
        for name in parameters:
            if name not in kinds:
                raise unknown("parameter", name, kinds or ["none"], hint=f" (of {kind.__name__})")
        values = {name: _typed(kind, name, parameters.get(name, _default(kind, name)), kinds[name]) for name in kinds}
        self.__dict__.update(values, _given=tuple(name for name in kinds if name in parameters), _runs=False)

    def __setattr__(self, name: str, value: object) -> None:
        if name in kinds_of(type(self)):
            raise AttributeError(f"{name} is a parameter: {type(self).__name__}({name}=...) makes another policy")
        if not self.__dict__.get("_runs"):
            raise AttributeError(
                f"{self!r} stands for a policy; each replay has an instance of its own, which begins in start(memory)"
            )
        self.__dict__[name] = value

    @property
    def parameters(self) -> dict[str, bool | float | str]:
        """All parameters, by name."""
        return {name: self.__dict__[name] for name in kinds_of(type(self))}

    @property
    def given(self) -> dict[str, bool | float | str]:
        """Those that were given, and are part of the policy's name."""
        return {name: self.__dict__[name] for name in self.__dict__["_given"]}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash((type(self), *self.parameters.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.given)

    def policy(self) -> Policy:
        """The Policy whose replays run an instance of this class, with these parameters."""
        kind = type(self)
        given = ",".join(f"{name}={text_of(value)}" for name, value in self.given.items())
        name = kind.name or kind.__name__
        return Policy(
            name=f"{name}:{given}" if given else name,
            summary=(inspect.getdoc(kind) or "").partition("\n")[0] if kind.__doc__ else "",
            source=_file_of(kind),
            own=self,
            **{choice: value for choice in CHOICES if (value := getattr(kind, choice, None)) is not None},
        )

    def for_replay(self, memory: Any, rng: Generator) -> Self:
        """The instance of one replay: parameters, and copies of what the class holds that can change."""
        kind = type(self)
        mine = object.__new__(kind)
        held = {name: copy.deepcopy(value) for name, value in _attributes(kind) if _can_change(value)}
        mine.__dict__.update(held, **self.parameters, _given=(), _runs=True, memory=memory, rng=rng)
        return mine


def kinds_of(kind: type[EvictionPolicy]) -> Mapping[str, type]:
    """The types of a class's parameters, by name, those of its bases first. CoopsimError for one that is none."""
    as_key: Any = kind
    return _kinds(as_key)


@lru_cache(256)
def _kinds(kind: Any) -> Mapping[str, type]:
    return {name: what for base in reversed(_bases(kind)) for name, what in _annotated(base)}


def _bases(kind: type) -> list[type]:
    """The class and what it derives from, up to EvictionPolicy."""
    return [base for base in kind.__mro__ if base is not EvictionPolicy and base is not object]


def _annotated(kind: type) -> Iterator[tuple[str, type]]:
    for name, annotation in inspect.get_annotations(kind).items():
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", repr(annotation))
        if "ClassVar" in text or name in CHOICES or name == "name":
            continue
        if annotation not in _TYPES:
            raise CoopsimError(f"{kind.__name__}.{name}: a parameter is a float, int, bool or str, not {text}")
        if name in _NAMES or name.startswith("_"):
            raise CoopsimError(f"{kind.__name__}.{name}: a parameter cannot be called that")
        yield name, _TYPES[annotation]


def _file_of(kind: type) -> str:
    """Where a class comes from: the name of a file, or its module's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).name if file else kind.__module__


def _attributes(kind: type) -> Iterator[tuple[str, Any]]:
    for base in reversed(_bases(kind)):
        yield from ((name, value) for name, value in vars(base).items() if not name.startswith("__"))


def _can_change(value: object) -> bool:
    """Whether an attribute of a class is data that a replay could change for the next."""
    plain = (int, float, complex, str, bytes, bool, type(None))
    return not (isinstance(value, (*plain, type)) or callable(value) or hasattr(type(value), "__get__"))


def _check(kind: type[EvictionPolicy]) -> None:
    """CoopsimError, one line, for a class that cannot be replayed."""
    name = kind.__name__
    if kind is EvictionPolicy:
        raise CoopsimError("EvictionPolicy is the base of policies: class Mine(coopsim.EvictionPolicy)")
    if kind.__init__ is not EvictionPolicy.__init__:
        raise CoopsimError(f"{name}: parameters are annotated class attributes and state begins in start, not __init__")
    search = getattr(kind, "choose", None)
    if isinstance(search, compiled):
        search.names(name, kinds_of(kind))
    elif not any(callable(getattr(kind, answer, None)) for answer in ANSWERS):
        raise CoopsimError(f"{name}: defines neither choose(self, memory, need) nor score(self, cost, recency, ...)")
    for method, arguments in (EVENTS | ANSWERS).items():
        if (function := getattr(kind, method, None)) is not None and not isinstance(function, compiled):
            check_arguments(f"{name}.{method}", function, ("self", *arguments))


def check_arguments(what: str, function: Any, arguments: tuple[str, ...]) -> None:
    """CoopsimError if a function cannot be called with these arguments, by place."""
    if not callable(function):
        raise CoopsimError(f"{what} is not a function")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # of C
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise CoopsimError(f"{what} is called with ({', '.join(arguments)}), but takes {signature}") from None


def _default(kind: type, name: str) -> Any:
    return getattr(kind, name, _REQUIRED)


def _typed(owner: type, name: str, value: Any, kind: type) -> bool | float | str:
    """The value as its type. CoopsimError if it is of another."""
    if value is _REQUIRED:
        raise CoopsimError(f"{owner.__name__}: the parameter {name} has no value")
    families = {float: Real, int: Integral, bool: bool, str: str}
    fits = isinstance(value, families[kind]) and isinstance(value, bool) == (kind is bool)
    if not fits or (kind is float and math.isnan(value)):
        raise CoopsimError(f"{owner.__name__}: {name}={value!r} is no {kind.__name__}")
    result: bool | float | str = kind(value)
    return result


def text_of(value: bool | float | str) -> str:
    """A parameter as it is written in names, in one spelling."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def read(kind: type[EvictionPolicy], name: str, text: str) -> bool | float | str:
    """A parameter from the command line. CoopsimError if it is none of its type."""
    what = kinds_of(kind)[name]
    words: dict[str, bool] = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return words[text.lower()] if what is bool else what(text)
    except (ValueError, KeyError):
        raise CoopsimError(f"{kind.__name__}: {name}={text} is no {what.__name__}") from None


def _made(kind: type[EvictionPolicy], parameters: dict[str, Any]) -> EvictionPolicy:
    return kind(**parameters)
