"""What a trace asks of its allocator, in order: memory taken and given back."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.trace import Trace
from coopsim.trace.asks import asks
from coopsim.types import Phase

Ints = NDArray[np.int64]

GRANULE = 512  #: bytes; PyTorch's allocators round every request up to a multiple of it
PHASES = list(Phase)


@dataclass(frozen=True)
class Requests:
    """Arrays of equal length, a row a request, in program order.

    `take` says whether it takes memory or gives it back; `item` is the number of the allocation, counted from 0 in the
    order of taking; `bytes` its size as asked for; `stream` the CUDA stream that takes it; `op` the op of the trace, -1
    before the first; `phase` the index in PHASES of that op's, -1 before the first; `step` counts training steps from
    0, over all rounds. `site` numbers the places in the program that ask (module, op and which of its requests): what
    an allocator can know of a caller whose sizes change.
    """

    take: NDArray[np.bool_]
    item: Ints
    bytes: Ints
    stream: Ints
    op: Ints
    phase: Ints
    step: Ints
    site: Ints

    def __len__(self) -> int:
        return len(self.take)

    def rows(self) -> Iterator[tuple[int, ...]]:
        """(take, item, bytes, stream, op, phase, step, site) of each request, as plain integers."""
        columns = (self.take, self.item, self.bytes, self.stream, self.op, self.phase, self.step, self.site)
        return zip(*(column.tolist() for column in columns), strict=True)

    @property
    def n_items(self) -> int:
        """Number of allocations."""
        return int(self.take.sum())

    def lifetimes(self) -> tuple[Ints, Ints, Ints]:
        """For each allocation: its bytes, the row that takes it, and the row that gives it back (or one past all)."""
        start = np.flatnonzero(self.take)
        end = np.full(len(start), len(self), np.int64)
        given = np.flatnonzero(~self.take)
        end[self.item[given]] = given
        return self.bytes[start], start, end

    def peak_bytes(self, granule: int = 1) -> int:
        """Most bytes alive at once, each allocation rounded up to `granule`: no allocator can reserve less."""
        nbytes = -(-self.bytes // granule) * granule
        return int(np.cumsum(np.where(self.take, nbytes, -nbytes)).max(initial=0))


def requests_of(trace: Trace, rounds: int = 1) -> Requests:
    """The requests of all recorded steps, `rounds` times over in one memory.

    What is there at the start is taken first, in the order of the trace, and then what trace.asks says; nothing is
    asked for 0 bytes. In later rounds a storage is what `becomes` says.
    """
    writer = _Writer(trace)
    for number in range(rounds):
        writer.round(number)
    columns = [np.array(column, np.int64) for column in zip(*writer.rows, strict=True)] or [np.zeros(0, np.int64)] * 8
    return Requests(columns[0].astype(np.bool_), *columns[1:])


class _Writer:
    """Writes down what a trace asks for. Nothing is asked for 0 bytes."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.rows: list[tuple[int, ...]] = []
        self.items = 0
        self.where: dict[int, tuple[int, int, int]] = {}  # holder: item, bytes, stream
        self.sizes, self.start = trace.bytes.tolist(), np.flatnonzero(trace.alive_at_start).tolist()
        self.stream, self.step = trace.stream.tolist(), trace.step.tolist()
        self.phase = [PHASES.index(Phase(phase)) for phase in trace.phase]
        self.sites: dict[tuple[str, str, int, int], int] = {}

    def round(self, number: int) -> None:
        """All ops once."""
        first = number * self.trace.n_steps
        before = at = (-1, -1, first)  # op, phase, step
        for storage in self.start:
            if storage not in self.where:
                self._take(storage, self.sizes[storage], 0, at, self._site(-1, 0))
        for take, holder, nbytes, op, nth in asks(self.trace):
            at = (op, self.phase[op], first + self.step[op]) if op >= 0 else before
            if take:
                self._take(holder, nbytes, self.stream[op], at, self._site(op, nth))
            else:
                self._give_back(holder, at)
        last = self.trace.n_ops - 1
        at = (last, self.phase[last], first + self.step[last]) if last >= 0 else at
        heirs = self.trace.becomes.tolist()
        for storage in [s for s in self.where if heirs[s] < 0]:
            self._give_back(storage, at)
        self.where = {heirs[storage]: place for storage, place in self.where.items()}

    def _take(self, holder: int, nbytes: int, stream: int, at: tuple[int, int, int], site: int) -> None:
        place = self.where[holder] = self.items, nbytes, stream
        if nbytes:
            self.items += 1
            self.rows.append((1, *place, *at, site))

    def _give_back(self, holder: int, at: tuple[int, int, int]) -> None:
        place = self.where.pop(holder)
        if place[1]:
            self.rows.append((0, *place, *at, -1))

    def _site(self, op: int, nth: int) -> int:
        key = (self.trace.module[op], self.trace.name[op], self.phase[op], nth) if op >= 0 else ("", "", -1, 0)
        return self.sites.setdefault(key, len(self.sites))
