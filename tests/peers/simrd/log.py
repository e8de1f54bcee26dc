"""Read a log of DTR's prototype (uwsampl/dtr-prototype): a JSON object a line, its kind under `INSTRUCTION`.

Numbers in it are strings. `constant`: a tensor enters from outside. `call`: an op, with the bytes of each result and
the argument that it is a view of (-1: of none). `mutate`: an op that updates arguments in place. `copy`, `copy_from`,
`release`: names of tensors come, are bound anew, and go.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coopsim.base.types import CoopsimError


class LogError(CoopsimError):
    """The log is none, or contradicts itself. The message names the line and the reason."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A weight, an input, a gradient to start from: `nbytes` that the program brings along."""

    line: int
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class LogCall:
    """An op: `results` are (name, bytes of its storage, number of the argument it is a view of or -1)."""

    line: int
    op: str
    args: tuple[str, ...]
    results: tuple[tuple[str, int, int], ...]
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Mutate:
    """An op that updates the arguments numbered `mutated` in place."""

    line: int
    op: str
    args: tuple[str, ...]
    mutated: tuple[int, ...]
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Bind:
    """`name` becomes another name of what `source` names; `anew`: it was bound before, and lets go of that."""

    line: int
    name: str
    source: str
    anew: bool


@dataclass(frozen=True, slots=True)
class LogRelease:
    """`name` goes."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Backward:
    """What follows is the backward pass."""

    line: int


Instruction = Constant | LogCall | Mutate | Bind | LogRelease | Backward
_Line = tuple[int, dict[str, Any]]


def read(path: str | Path) -> list[Instruction]:
    """The instructions of a log (plain text, .gz or .zst), from its first START on if it has one."""
    lines = list(_objects(_text(Path(path)), str(path)))
    starts = (k for k, (_, j) in enumerate(lines) if j["INSTRUCTION"] == "ANNOTATE" and j.get("ANNOTATION") == "START")
    first = next(starts, -1)
    rest = iter(lines[first + 1 :])
    found: list[Instruction] = []
    for number, j in rest:
        try:
            instruction = _instruction(number, j, rest)
        except (KeyError, ValueError, TypeError, AttributeError) as e:
            what = f"no field {e}" if isinstance(e, KeyError) else str(e)
            raise LogError(f"{path}, line {number}: malformed {j['INSTRUCTION']} ({what})") from None
        if instruction is not None:
            found.append(instruction)
    if not found:
        raise LogError(f"{path}: no instructions of a DTR log in it")
    return found


def _text(path: Path) -> str:
    import pyarrow as pa

    codec = {".zst": "zstd", ".gz": "gzip"}.get(path.suffix)
    try:
        with pa.OSFile(str(path)) as raw:
            data = pa.CompressedInputStream(raw, codec).read() if codec else raw.read()
        return str(data.decode())
    except (OSError, ValueError, pa.ArrowException) as e:
        if isinstance(e, OSError) and e.filename:
            raise
        raise LogError(f"{path}: cannot be read ({str(e).splitlines()[0]})") from None


def _objects(text: str, path: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            j = json.loads(line)
        except ValueError:
            j = None
        if not isinstance(j, dict) or not isinstance(j.get("INSTRUCTION"), str):
            raise LogError(f"{path}, line {number}: not a DTR log (each line is a JSON object with an INSTRUCTION)")
        yield number, j


def _instruction(number: int, j: dict[str, Any], rest: Iterator[_Line]) -> Instruction | None:
    kind = j["INSTRUCTION"]
    if kind == "CONSTANT":
        name = str(j["NAME"])
        return Constant(number, name, _field(rest, "MEMORY", name))
    if kind == "CALL":
        args = _names(j["ARGS"])
        results = []
        for name in _names(j["RESULT"]):
            nbytes = _field(rest, "MEMORY", name)
            alias = _field(rest, "ALIAS", name, least=-1)
            if alias >= len(args):
                raise ValueError(f"{name} is a view of argument {alias}, and there are {len(args)}")
            results.append((name, nbytes, alias))
        if not results:
            raise ValueError("it has no results")
        return LogCall(number, str(j["NAME"]), args, tuple(results), _count(j["TIME"]))
    if kind == "MUTATE":
        args = _names(j["ARGS"])
        mutated = tuple(_count(m) for m in j["MUTATE"])
        if not mutated or max(mutated) >= len(args):
            raise ValueError(f"it mutates arguments {mutated} of {len(args)}")
        return Mutate(number, str(j["NAME"]), args, mutated, _count(j["TIME"]))
    if kind in ("COPY", "COPY_FROM"):
        return Bind(number, str(j["DST"]), str(j["SRC"]), anew=kind == "COPY_FROM")
    if kind == "RELEASE":
        return LogRelease(number, str(j["NAME"]))
    if kind == "ANNOTATE":
        return Backward(number) if j["ANNOTATION"] == "BACKWARD" else None
    raise ValueError("no such instruction, or not where one may stand")


def _field(rest: Iterator[_Line], kind: str, name: str, least: int = 0) -> int:
    """The number in the next line, which must be the `kind` of `name`."""
    _, j = next(rest, (0, {"INSTRUCTION": "the end"}))
    if j["INSTRUCTION"] != kind or j.get("NAME") != name:
        raise ValueError(f"the {kind} of {name} must follow, not {j['INSTRUCTION']}")
    return _count(j[kind], least)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("its ARGS and RESULT must be lists of names")
    return tuple(value)


def _count(value: Any, least: int = 0) -> int:
    number = int(value)
    if number < least:
        raise ValueError(f"{number} where at least {least} is meant")
    return number
