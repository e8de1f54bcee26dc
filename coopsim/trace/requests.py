"""What a program asks of its allocator, in order: rows of numbers that a compiled one performs, what each was for, and
what writes them one by one. Those of a trace or a schedule: requests_of.py; of PyTorch's memory history:
snapshot/requests.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import Phase
from coopsim.trace.request_rows import (
    ALLOCATE,
    AMOUNT,
    BEGIN,
    CAPTURE,
    DELAY,
    EMPTY,
    END,
    FREE,
    KIND,
    NUMBER,
    RECORD,
    RELEASE,
    STREAM,
    TICK,
)

Ints = NDArray[np.int64]

PHASES = list(Phase)

_TEXT = ("a {1} {2} {3}", "f {1}", "r {1} {3}", "e", "t {2}", "d {2}", "", "b {1} {3}", "c {1} {3}", "n {1}", "x {1}")


@dataclass(frozen=True)
class Requests:
    """Requests in order; n of them, which make m allocations.

    rows: int64 (n, 4), as trace/request_rows.py has them; allocation numbers count from 0, each is allocated once.
    source: (n,), the place that it comes from (an op of a trace, a row of a schedule, an event of a history), or -1.
    step: (n,), the training step, counted from 0. phase: (n,), the index in PHASES, or -1 where the record has none.
    labels: m, by allocation number: what it is, for people. site: (m,), numbers the places in the program that ask, or
    -1: what an allocator can know of a caller whose sizes change. prologue: how many rows at the start only restore
    what was there before the record begins.
    """

    rows: Ints
    source: Ints
    step: Ints
    phase: Ints
    labels: tuple[str, ...]
    site: Ints
    prologue: int

    def __len__(self) -> int:
        return len(self.rows)

    def lines(self) -> list[str]:
        """The requests as a case file has them."""
        return [_TEXT[row[KIND]].format(*row) for row in self.rows.tolist()]

    def memory(self) -> Iterator[tuple[bool, int, int, int, int, int, int]]:
        """Those that take memory or give it back: (takes, number, bytes, stream, step, phase, site), in order.

        One that gives back has the bytes, the stream and the site of the allocation.
        """
        columns = zip(self.rows.tolist(), self.step.tolist(), self.phase.tolist(), strict=True)
        taken: dict[int, tuple[int, int, int]] = {}  # bytes, stream, site
        site = self.site.tolist()
        for row, step, phase in columns:
            number = row[NUMBER]
            if row[KIND] == ALLOCATE:
                taken[number] = row[AMOUNT], row[STREAM], site[number]
            elif row[KIND] != FREE:
                continue
            nbytes, stream, where = taken[number]
            yield row[KIND] == ALLOCATE, number, nbytes, stream, step, phase, where

    def lifetimes(self) -> tuple[Ints, Ints, Ints]:
        """By allocation: its bytes, the row that takes it, and the row that gives it back (or one past all)."""
        takes, gives = (np.flatnonzero(self.rows[:, KIND] == kind) for kind in (ALLOCATE, FREE))
        start, end = np.zeros(len(takes), np.int64), np.full(len(takes), len(self), np.int64)
        start[self.rows[takes, NUMBER]] = takes
        end[self.rows[gives, NUMBER]] = gives
        return self.rows[start, AMOUNT], start, end

    def held(self, row: int) -> Ints:
        """The numbers of the allocations that are held after a row."""
        _, start, end = self.lifetimes()
        return np.flatnonzero((start <= row) & (end > row))

    def peak_bytes(self, granule: int = 1) -> int:
        """The most bytes that are held at once, each allocation rounded up to `granule`: no allocator can go below.

        What restoring the start takes for a moment does not count.
        """
        nbytes, start, end = self.lifetimes()
        change = np.zeros(len(self) + 1, np.int64)
        change[start] = -(-nbytes // granule) * granule
        change[end] -= change[start] * (end < len(self))
        return int(np.cumsum(change[:-1])[max(self.prologue - 1, 0) :].max(initial=0))


class Writer:
    """Builds requests row by row. `step` and `phase` are of what is written from here on."""

    def __init__(self) -> None:
        self.step, self.phase = 0, -1
        self._rows: list[tuple[int, int, int, int]] = []
        self._places: list[tuple[int, int, int]] = []  # source, step, phase
        self._labels: list[str] = []
        self._sites: list[int] = []
        self._pool = 0  # the private pool that is begun
        self._users: dict[int, int] = {}  # of each private pool: how often it was begun

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, nbytes: int, stream: int = 0, source: int = -1, label: str = "", site: int = -1) -> int:
        """Allocate, from the private pool in which this is; the new allocation's number."""
        number = len(self._labels)
        self._labels.append(label)
        self._sites.append(site)
        self._put(ALLOCATE, number, nbytes, stream, source)
        return number

    def give_back(self, number: int, source: int = -1) -> None:
        """Free."""
        self._put(FREE, number, 0, 0, source)

    def within(self, pool: int, source: int = -1, *, captures: bool = False) -> None:
        """From here on allocations come from that private pool (0: from none), as in a capture if it `captures`."""
        if pool == self._pool:
            return
        if self._pool:
            self._put(END, self._pool, 0, 0, source)
        if pool:
            self._users[pool] = self._users.get(pool, 0) + 1
            self._put(CAPTURE if captures else BEGIN, pool, 0, -1, source)
        self._pool = pool

    def release(self, pool: int, source: int = -1) -> None:
        """Nobody needs the private pool any more."""
        self.within(0, source)
        for _ in range(self._users.pop(pool, 0)):
            self._put(RELEASE, pool, 0, 0, source)

    def use(self, number: int, stream: int, source: int = -1) -> None:
        """record_stream."""
        self._put(RECORD, number, 0, stream, source)

    def empty(self, source: int = -1) -> None:
        """empty_cache."""
        self._put(EMPTY, 0, 0, 0, source)

    def tick(self, ticks: int, source: int = -1) -> None:
        """Let the device's clock advance."""
        self._put(TICK, 0, ticks, 0, source)

    def delay(self, ticks: int, source: int = -1) -> None:
        """How long an event that is recorded from here on takes."""
        self._put(DELAY, 0, ticks, 0, source)

    def restore(
        self, layout: Iterable[tuple[int, int, list[tuple[int, str | None]]]], pools: Sequence[int] = ()
    ) -> dict[tuple[int, int], int]:
        """Make segments with their blocks: for each its bytes, stream, and blocks as (bytes, label), in order.

        The label of an unused block is None. `pools`: the private pool of each segment, 0 if of none; else all are.

        Returns the allocation number of each block in use, by (segment, block). Segment by segment: one is made by
        asking for all of it, and then cut from its low end, unused blocks too, so that only one segment at a time has
        room. The unused blocks are given back when all is in place.
        """
        numbers: dict[tuple[int, int], int] = {}
        unused: list[int] = []
        for s, (total, stream, blocks) in enumerate(layout):
            self.within(pools[s] if pools else 0)
            self.give_back(self.take(total if total > SMALL_SEGMENT else 1, stream, label=_START))
            for b, (size, label) in enumerate(blocks):
                if label is not None:
                    numbers[s, b] = self.take(size, stream, label=label)
                else:
                    most = SMALL_BLOCK if total == SMALL_SEGMENT else size  # larger ones go to large segments
                    sizes = [min(most, size - at) for at in range(0, size, most)]
                    unused += [self.take(nbytes, stream, label=_START) for nbytes in sizes]
        self.within(0)
        for number in unused:
            self.give_back(number)
        return numbers

    def requests(self, prologue: int = 0) -> Requests:
        """What has been written."""
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        source, step, phase = np.array(self._places, np.int64).reshape(-1, 3).T
        return Requests(rows, source, step, phase, tuple(self._labels), np.array(self._sites, np.int64), prologue)

    def _put(self, kind: int, number: int, amount: int, stream: int, source: int) -> None:
        self._rows.append((kind, number, amount, stream))
        self._places.append((source, self.step, self.phase))


_START = "what is there at the start"
SMALL_SEGMENT = 2 << 20  #: bytes of a segment of blocks of at most SMALL_BLOCK; the other segments' are larger
SMALL_BLOCK = 1 << 20
