"""A stream of requests, as rows of numbers that a compiled allocator performs, and what each of them was for."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel.rows import ALLOCATE, AMOUNT, DELAY, EMPTY, FREE, KIND, NUMBER, RECORD, TICK

_TEXT = ("a {1} {2} {3}", "f {1}", "r {1} {3}", "e", "t {2}", "d {2}")


@dataclass(frozen=True)
class RequestStream:
    """Requests in order.

    rows: int64 (n, 4), as kernel/rows.py has them; allocation numbers count from 0, each is allocated once.
    source: by row, the place that it comes from (an op of a trace, a row of a schedule, an event of a history), or -1.
    labels: by allocation number, what it is, for people. prologue: how many rows at the start only restore what was
    there before the record begins.
    """

    rows: NDArray[np.int64]
    source: NDArray[np.int64]
    labels: tuple[str, ...]
    prologue: int

    def __len__(self) -> int:
        return len(self.rows)

    def lines(self) -> list[str]:
        """The requests as a case file has them."""
        return [_TEXT[row[KIND]].format(*row) for row in self.rows.tolist()]

    def peak_bytes(self) -> int:
        """The most bytes that are held at once, as they were asked for: what no allocator can go below.

        What restoring the start takes for a moment does not count.
        """
        held = np.zeros(self.rows[:, NUMBER].max(initial=-1) + 1, np.int64)
        takes, gives = self.rows[:, KIND] == ALLOCATE, self.rows[:, KIND] == FREE
        held[self.rows[takes, NUMBER]] = self.rows[takes, AMOUNT]
        change = np.where(takes, self.rows[:, AMOUNT], 0)
        change[gives] = -held[self.rows[gives, NUMBER]]
        return int(np.cumsum(change)[max(self.prologue - 1, 0) :].max(initial=0))


class Writer:
    """Builds a stream row by row."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []
        self._source: list[int] = []
        self._labels: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, nbytes: int, stream: int = 0, source: int = -1, label: str = "") -> int:
        """Allocate; the new allocation's number."""
        number = len(self._labels)
        self._labels.append(label)
        self._put(ALLOCATE, number, nbytes, stream, source)
        return number

    def give_back(self, number: int, source: int = -1) -> None:
        """Free."""
        self._put(FREE, number, 0, 0, source)

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

    def restore(self, layout: Iterable[tuple[int, int, list[tuple[int, str | None]]]]) -> dict[tuple[int, int], int]:
        """Make segments with their blocks: for each its bytes, stream, and blocks as (bytes, label), in order.

        The label of an unused block is None.

        Returns the allocation number of each block in use, by (segment, block). Segment by segment: one is made by
        asking for all of it, and then cut from its low end, unused blocks too, so that only one segment at a time has
        room. The unused blocks are given back when all is in place.
        """
        numbers: dict[tuple[int, int], int] = {}
        unused: list[int] = []
        for s, (total, stream, blocks) in enumerate(layout):
            self.give_back(self.take(total if total > SMALL_SEGMENT else 1, stream, label=_START))
            for b, (size, label) in enumerate(blocks):
                if label is not None:
                    numbers[s, b] = self.take(size, stream, label=label)
                else:
                    most = SMALL_BLOCK if total == SMALL_SEGMENT else size  # larger ones go to large segments
                    sizes = [min(most, size - at) for at in range(0, size, most)]
                    unused += [self.take(nbytes, stream, label=_START) for nbytes in sizes]
        for number in unused:
            self.give_back(number)
        return numbers

    def stream(self, prologue: int = 0) -> RequestStream:
        """What has been written."""
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        return RequestStream(rows, np.array(self._source, np.int64), tuple(self._labels), prologue)

    def _put(self, kind: int, number: int, amount: int, stream: int, source: int) -> None:
        self._rows.append((kind, number, amount, stream))
        self._source.append(source)


_START = "what is there at the start"
SMALL_SEGMENT = 2 << 20  #: bytes of a segment of blocks of at most SMALL_BLOCK; the other segments' are larger
SMALL_BLOCK = 1 << 20
