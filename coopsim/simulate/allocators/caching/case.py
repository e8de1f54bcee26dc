"""Cases: requests with settings and a device, and the lines that answer them.

The format is that of the tests' oracle, which asks the real allocator: `a ID BYTES STREAM` allocate, `f ID` free,
`r ID STREAM` record_stream, `e` empty_cache, `t N` the device clock advances N ticks, `d N` from now on an event
completes N ticks after it is recorded, `F X` memory fraction, `s` print segments, `p` print statistics. Of private
pools: `b POOL STREAM` begin (-1: requests of all streams), `c POOL STREAM` begin as a capture, `n POOL` end, `x POOL`
release, `E POOL` give back what is free in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import DRIVER
from coopsim.simulate.allocators.caching import version
from coopsim.simulate.allocators.caching.api import LARGEST_REQUEST, CachingAllocator, CachingSegment
from coopsim.trace.request_rows import (
    ALLOCATE,
    BEGIN,
    CAPTURE,
    DELAY,
    EMPTY,
    EMPTY_POOL,
    END,
    FREE,
    RECORD,
    RELEASE,
    STOP,
    TICK,
)

_OPERANDS = {"a": 3, "f": 1, "r": 2, "e": 0, "t": 1, "d": 1, "F": 1, "s": 0, "p": 0}
_OPERANDS |= {"b": 2, "c": 2, "n": 1, "x": 1, "E": 1}
_POOL_KINDS = {"b": BEGIN, "c": CAPTURE, "n": END, "x": RELEASE, "E": EMPTY_POOL}
_MOST_POOLS = 4096
_LARGEST_STREAM = (1 << 47) - 1  # a pointer
_LARGEST_TIME = 1 << 40


@dataclass(frozen=True)
class AllocatorCase:
    """Requests (rows as perform.py has them), their text, the settings and the bytes of the device."""

    conf: str
    total_bytes: int
    ops: list[str]
    requests: NDArray[np.int64]


def read(ops: list[str]) -> NDArray[np.int64]:
    """The rows of requests. An allocation's number must be free when it is given out, and held when it is used.

    A private pool must be ended before it is begun again, and is gone when it has been released as often as begun.
    """
    rows = np.zeros((len(ops), 4), np.int64)
    numbers: dict[int, int] = {}
    held: set[int] = set()
    pools = _Pools()
    for i, op in enumerate(ops):
        try:
            rows[i] = pools.row(op) if isinstance(op, str) and op[:1] in _POOL_KINDS else _row(op, numbers, held)
        except CoopsimError as e:
            raise CoopsimError(f"ops[{i}]: {e}") from None
    return rows


class _Pools:
    """The private pools of a case, as far as its requests tell."""

    def __init__(self) -> None:
        self._users: dict[int, int] = {}
        self._begun: set[int] = set()

    def row(self, op: str) -> tuple[int, int, int, int]:
        """Of a request that concerns a pool."""
        kind, *words = _words(op)
        pool = _natural(op, words[0])
        _bound(op, pool, _MOST_POOLS)
        users = self._users.get(pool, 0)
        if pool == 0:
            raise CoopsimError(f"{op!r}: private pools count from 1")
        if kind in "bc":
            if pool in self._begun or (pool in self._users and not users):
                raise CoopsimError(f"{op!r}: {pool} is {'begun already' if pool in self._begun else 'released'}")
            self._begun.add(pool)
            self._users[pool] = users + 1
            stream = -1 if words[1] == "-1" else _natural(op, words[1])
            _bound(op, stream, _LARGEST_STREAM)
            return _POOL_KINDS[kind], pool, 0, stream
        if kind == "n" and pool not in self._begun:
            raise CoopsimError(f"{op!r}: {pool} is not begun")
        if kind == "x" and (not users or (users == 1 and pool in self._begun)):
            raise CoopsimError(f"{op!r}: {pool} {'is begun' if users else 'has no users'}")
        if kind == "n":
            self._begun.remove(pool)
        elif kind == "x":
            self._users[pool] = users - 1
        elif pool not in self._users:
            raise CoopsimError(f"{op!r}: there is no pool {pool}")
        return _POOL_KINDS[kind], pool, 0, 0


def _words(op: Any) -> list[str]:
    words = op.split() if isinstance(op, str) and not op[:1].isspace() else []
    if not words or len(words) != 1 + _OPERANDS.get(words[0], -1):
        raise CoopsimError(f"{op!r:.60} is not a request")
    return words


def _row(op: Any, numbers: dict[int, int], held: set[int]) -> tuple[int, int, int, int]:
    words = _words(op)
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


def answer(
    case: AllocatorCase, torch: str = version.NEWEST, places: NDArray[np.int64] | None = None, driver: str = DRIVER
) -> Iterator[str]:
    """The lines that answer a case, in its order. places, driver: as of CachingAllocator."""
    allocator = CachingAllocator(torch, case.conf, case.total_bytes, places, driver)
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


def segment_line(s: CachingSegment) -> str:
    """A segment and its blocks."""
    kind = ("L" if s.is_large else "S") + ("x" if s.is_expandable else "")
    kind += f" pool {s.pool}" if s.pool else ""
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
