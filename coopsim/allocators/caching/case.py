"""Cases: requests with settings and a device, as JSON, and the lines that answer it.

The format is that of the tests' oracle, which asks the real allocator: `a ID BYTES STREAM` allocate, `f ID` free,
`r ID STREAM` record_stream, `e` empty_cache, `t N` the device clock advances N ticks, `d N` from now on an event
completes N ticks after it is recorded, `F X` memory fraction, `s` print segments, `p` print statistics.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.allocators.caching import version
from coopsim.allocators.caching.api import LARGEST_REQUEST, CachingAllocator, Segment
from coopsim.kernel.rows import ALLOCATE, DELAY, EMPTY, FREE, RECORD, STOP, TICK
from coopsim.types import CoopsimError

_OPERANDS = {"a": 3, "f": 1, "r": 2, "e": 0, "t": 1, "d": 1, "F": 1, "s": 0, "p": 0}
_LARGEST_STREAM = (1 << 47) - 1  # a pointer
_LARGEST_TIME = 1 << 40


@dataclass(frozen=True)
class Case:
    """Requests (rows as perform.py has them), their text, the settings and the bytes of the device."""

    conf: str
    total_bytes: int
    ops: list[str]
    requests: NDArray[np.int64]


def load(path: str) -> Case:
    """Read a case file. Raises CoopsimError that says what is wrong and where."""
    try:
        data: Any = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise CoopsimError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as e:
        raise CoopsimError(f"{path}: not a case file: {e}") from None
    if not isinstance(data, dict):
        raise CoopsimError(f"{path}: not a case file: {type(data).__name__}, not an object")
    for key, kind in (("conf", str), ("total", int), ("ops", list)):
        if not isinstance(data.get(key), kind) or isinstance(data[key], bool):
            what = "is missing" if key not in data else f"is {data[key]!r:.40}"
            raise CoopsimError(f"{path}: {key} {what}; it must be a {kind.__name__}")
    if not 0 < data["total"] <= LARGEST_REQUEST:
        raise CoopsimError(f"{path}: total is {data['total']}; a device cannot have that many bytes")
    try:
        return Case(data["conf"], data["total"], data["ops"], read(data["ops"]))
    except CoopsimError as e:
        raise CoopsimError(f"{path}: {e}") from None


def read(ops: list[str]) -> NDArray[np.int64]:
    """The rows of requests. An allocation's number must be free when it is given out, and held when it is used."""
    rows = np.zeros((len(ops), 4), np.int64)
    numbers: dict[int, int] = {}
    held: set[int] = set()
    for i, op in enumerate(ops):
        try:
            rows[i] = _row(op, numbers, held)
        except CoopsimError as e:
            raise CoopsimError(f"ops[{i}]: {e}") from None
    return rows


def _row(op: Any, numbers: dict[int, int], held: set[int]) -> tuple[int, int, int, int]:
    words = op.split() if isinstance(op, str) and not op[:1].isspace() else []
    if not words or len(words) != 1 + _OPERANDS.get(words[0], -1):
        raise CoopsimError(f"{op!r:.60} is not a request")
    kind = words[0]
    if kind in "sp":
        return STOP, 0, 0, 0
    if kind == "F":
        fraction_of(op)
        return STOP, 0, 0, 0
    operands = [_natural(op, word) for word in words[1:]]
    if kind == "e":
        return EMPTY, 0, 0, 0
    if kind in "td":
        _bound(op, operands[0], _LARGEST_TIME)
        return TICK if kind == "t" else DELAY, 0, operands[0], 0
    number = operands[0]
    if kind == "a":
        _bound(op, operands[1], LARGEST_REQUEST)
        _bound(op, operands[2], _LARGEST_STREAM)
        if number in held:
            raise CoopsimError(f"{op!r}: {number} is held already")
        held.add(number)
        return ALLOCATE, numbers.setdefault(number, len(numbers)), operands[1], operands[2]
    if number not in held:
        raise CoopsimError(f"{op!r}: {number} is not held")
    if kind == "f":
        held.remove(number)
        return FREE, numbers[number], 0, 0
    _bound(op, operands[1], _LARGEST_STREAM)
    if operands[1] % 2:
        raise CoopsimError(f"{op!r}: {operands[1]} is not the address of a stream, which is even")
    return RECORD, numbers[number], 0, operands[1]


def fraction_of(op: str) -> float:
    """The X of `F X`."""
    try:
        fraction = float(op.split()[1])
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise CoopsimError(f"{op!r}: a memory fraction is in 0 to 1")
    return fraction


def _natural(op: str, word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise CoopsimError(f"{op!r:.60}: {word!r:.40} is not a whole number")
    if len(word) > 18:
        _bound(op, int(word[:30]), LARGEST_REQUEST)
    return int(word)


def _bound(op: str, value: int, most: int) -> None:
    if value > most:
        raise CoopsimError(f"{op!r:.60}: {value} is beyond {most}")


def answer(case: Case, torch: str = version.NEWEST) -> Iterator[str]:
    """The lines that answer a case, in its order."""
    allocator = CachingAllocator(torch, case.conf, case.total_bytes)
    at, n = 0, len(case.ops)
    while at < n:
        answers, performed = allocator.run(case.requests[at:])
        for op, address in zip(case.ops[at : at + performed], answers.tolist(), strict=False):
            if op[0] == "a":
                _, number, nbytes, _ = op.split()
                yield f"a {int(number)} {address}" if address >= 0 else f"oom {int(number)} {int(nbytes)}"
        at += performed
        if at < n:
            op = case.ops[at]
            if op[0] == "F":
                allocator.set_memory_fraction(fraction_of(op))
            elif op[0] == "s":
                yield from map(segment_line, allocator.segments())
            else:
                yield statistics_line(allocator)
        at += 1


def segment_line(s: Segment) -> str:
    """A segment and its blocks."""
    kind = ("L" if s.is_large else "S") + ("x" if s.is_expandable else "")
    blocks = " ".join(f"{b.state}{b.bytes}/{b.requested}" for b in s.blocks)
    return f"seg {s.address} {s.bytes} stream {s.stream} {kind}: {blocks}"


def statistics_line(allocator: CachingAllocator) -> str:
    """The statistics that a case shows."""
    s = allocator.statistics()

    def both(name: str, key: str) -> str:
        return f"{name} {s[key + '.current']} peak {s[key + '.peak']}"

    return (
        f"stats {both('alloc', 'allocated_bytes')} {both('reserved', 'reserved_bytes')} "
        f"{both('active', 'active_bytes')} {both('insplit', 'inactive_split_bytes')} "
        f"requested_peak {s['requested_bytes.peak']} nseg {s['segments.current']} nsegpeak {s['segments.peak']} "
        f"retries {s['num_alloc_retries']} ooms {s['num_ooms']} "
        f"ndevalloc {s['num_device_alloc']} ndevfree {s['num_device_free']}"
    )
