"""Requests of an allocator, as rows of numbers that a compiled one performs, and what each of them was for."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel.rows import ALLOCATE, AMOUNT, FREE, KIND, NUMBER, STREAM
from coopsim.types import Phase

Ints = NDArray[np.int64]

PHASES = list(Phase)

_TEXT = ("a {1} {2} {3}", "f {1}", "r {1} {3}", "e", "t {2}", "d {2}", "", "b {1} {3}", "c {1} {3}", "n {1}", "x {1}")


@dataclass(frozen=True)
class Requests:
    """Requests in order; n of them, which make m allocations.

    rows: int64 (n, 4), as kernel/rows.py has them; allocation numbers count from 0, each is allocated once.
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

    def peak_bytes(self, granule: int = 1) -> int:
        """The most bytes that are held at once, each allocation rounded up to `granule`: no allocator can go below.

        What restoring the start takes for a moment does not count.
        """
        nbytes, start, end = self.lifetimes()
        change = np.zeros(len(self) + 1, np.int64)
        change[start] = -(-nbytes // granule) * granule
        change[end] -= change[start] * (end < len(self))
        return int(np.cumsum(change[:-1])[max(self.prologue - 1, 0) :].max(initial=0))
