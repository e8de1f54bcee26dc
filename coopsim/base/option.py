"""An option is declared once, as a field of a dataclass: the command line and the functions of Python follow from it.

`add` gives a verb's parser the flags of the options that it has, `given` returns their values, `check_exclusions` is
the one place where options that exclude or require each other are refused, and `takes` gives a function of Python the
options as named parameters. Imports the standard library only, as `coopsim --help` must answer at once.
"""

import argparse
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple, ParamSpec, TypeVar

from coopsim.base.types import CoopsimError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_KEY = "option"
_MOST = 1_000_000  #: the largest number of steps, neighbours or processes


def positive(text: str) -> int:
    """Parse a whole number from 1 to a million. Raises ArgumentTypeError."""
    if not text.isdecimal() or len(text) > 18 or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to a million")
    return int(text)


def natural(text: str) -> int:
    """Parse a whole number, 0 included. Raises ArgumentTypeError."""
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
    return int(text)


class Excluded(NamedTuple):
    """An option some of whose values are excluded; `said` is what a message calls these."""

    name: str
    when: Callable[[Any], bool]
    said: str


@dataclass(frozen=True, kw_only=True)
class DeclaredOption:
    """What is known of an option beside its name, type and default.

    help: of the flag; verbs: which verbs and functions have it, and what stands for {said} in their help. flag: if it
    is not the name. parse: reads a word of the command line. choices: the values beside the default. excludes: options
    that cannot be given with it, and why, with {} for that option's flag; requires: options of which one must be given
    with it. in_key: what is saved for a script is for one value of it. check: raises CoopsimError for a value from
    Python that makes no sense, given name and value.
    """

    help: str
    verbs: Mapping[str, str]
    flag: str = ""
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    excludes: tuple[str | Excluded, ...] = ()
    why: str = ""
    requires: tuple[str, ...] = ()
    in_key: bool = False
    check: Callable[[str, Any], None] | None = None


def option(default: Any, help_: str, *verbs: str, **known: Any) -> Any:
    """Declare an option: the value of a dataclass field. verbs: as in DeclaredOption, or only their names."""
    said = known.pop("said", {})
    return field(
        default=default, metadata={_KEY: DeclaredOption(help=help_, verbs=dict.fromkeys(verbs, "") | said, **known)}
    )


def declared(kind: type, verb: str = "") -> dict[str, tuple[Field[Any], DeclaredOption]]:
    """The options of a dataclass, by name, in order: those of a verb, or all."""
    found = {f.name: (f, f.metadata[_KEY]) for f in fields(kind) if _KEY in f.metadata}
    return {name: one for name, one in found.items() if not verb or verb in one[1].verbs}


def flag_of(name: str, of: DeclaredOption) -> str:
    """The flag of an option."""
    return of.flag or f"--{name.replace('_', '-')}"


def add(p: argparse.ArgumentParser, kind: type, verb: str) -> None:
    """Give a parser the flags of a verb."""
    for name, (one, of) in declared(kind, verb).items():
        how: dict[str, Any] = {"dest": name, "help": of.help.replace("{said}", of.verbs[verb]), "default": one.default}
        if one.default is False:
            how["action"] = "store_true"
        else:
            how |= {"type": of.parse, "choices": of.choices or None, "metavar": of.metavar}
        p.add_argument(flag_of(name, of), **how)


def given(kind: type, args: argparse.Namespace, verb: str) -> dict[str, Any]:
    """The values of a verb's options."""
    return {name: getattr(args, name) for name in declared(kind, verb)}


def exclude(args: argparse.Namespace, options: Iterable[str | Excluded], why: str) -> None:
    """Raise CoopsimError if one of these options is given; `why` is its message, with {} where the option goes."""
    for one in options:
        name, when, said = (one, bool, f"--{one.replace('_', '-')}") if isinstance(one, str) else one
        if when(getattr(args, name)):
            raise CoopsimError(why.format(said))


def check_exclusions(kind: type, args: argparse.Namespace, verb: str) -> None:
    """Raise CoopsimError if options are given that exclude each other, or one without another that it requires."""
    known = declared(kind, verb)
    for name, (one, of) in known.items():
        if getattr(args, name) == one.default:
            continue
        if of.requires and all(getattr(args, other) == known[other][0].default for other in of.requires):
            wanted = " or ".join(flag_of(other, known[other][1]) for other in of.requires)
            raise CoopsimError(f"{flag_of(name, of)} requires {wanted}")
        exclude(args, of.excludes, of.why)


def checked(kind: type, verb: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options from Python. Raises CoopsimError for one that the option does not take."""
    known = declared(kind, verb)
    for name, value in values.items():
        one, of = known[name]
        if value == one.default and type(value) is type(one.default):
            continue
        if of.choices and value not in of.choices:
            raise CoopsimError(f"unknown {name} {value!r}; it is {' or '.join(of.choices)}")
        if of.check is not None:
            of.check(name, value)
    return dict(values)


def takes(kind: type, verb: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Give a function, whose last parameter is `**options`, a verb's options as named parameters, each checked."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        known = declared(kind, verb)
        own = inspect.signature(function)
        parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for name, (one, _) in known.items():
            how: dict[str, Any] = {"default": one.default, "annotation": one.type}
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **how))
        signature = own.replace(parameters=parameters)

        @functools.wraps(function)
        def called(*args: _P.args, **named: _P.kwargs) -> _R:
            signature.bind(*args, **named)  # TypeError, as of any function
            checked(kind, verb, {name: value for name, value in named.items() if name in known})
            return function(*args, **named)

        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": own.return_annotation}
        return called

    return decorate
