"""What a trace asks of its allocator, in order: memory taken and given back."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.trace import Trace
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

    What is there at the start is taken first, in the order of the trace; nothing is asked for 0 bytes. An op without
    `requests` takes what it creates, and then its temporaries, which it gives back at once. In later rounds a storage
    is what `becomes` says.
    """
    writer = _Writer(trace)
    for number in range(rounds):
        writer.round(number)
    columns = [np.array(column, np.int64) for column in zip(*writer.rows, strict=True)] or [np.zeros(0, np.int64)] * 8
    return Requests(columns[0].astype(np.bool_), *columns[1:])


class _Writer:
    """Walks over the trace and writes down what it asks for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.rows: list[tuple[int, ...]] = []
        self.items = 0
        self.where: dict[int, tuple[int, int, int]] = {}  # storage: item, bytes, stream
        self.sizes, self.start = trace.bytes.tolist(), np.flatnonzero(trace.alive_at_start).tolist()
        self.creates, self.temporaries = trace.creates.rows(), trace.temporaries.rows()
        self.codes = trace.requests.rows()
        self.stream, self.step = trace.stream.tolist(), trace.step.tolist()
        self.phase = [PHASES.index(Phase(phase)) for phase in trace.phase]
        self.frees: list[list[int]] = [[] for _ in range(trace.n_ops + 1)]
        for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
            self.frees[op + 1].append(storage)
        self.at = (-1, -1, 0)  # op, phase, step
        self.sites: dict[tuple[str, str, int, int], int] = {}
        self.asked = 0  # requests of this op so far

    def round(self, number: int) -> None:
        """All ops once."""
        first = number * self.trace.n_steps
        self.at = (-1, -1, first)
        for storage in self.start:
            if storage not in self.where:
                self.where[storage] = self._take(self.sizes[storage], 0)
        for storage in self.frees[0]:
            self._give_back(self.where.pop(storage))
        for op in range(self.trace.n_ops):
            self.at, self.asked = (op, self.phase[op], first + self.step[op]), 0
            self._run(op)
            for storage in self.frees[op + 1]:
                self._give_back(self.where.pop(storage))
        heirs = self.trace.becomes.tolist()
        for storage in [s for s in self.where if heirs[s] < 0]:
            self._give_back(self.where.pop(storage))
        self.where = {heirs[storage]: place for storage, place in self.where.items()}

    def _run(self, op: int) -> None:
        created, stream = self.creates[op], self.stream[op]
        codes = self.codes[op]
        if not codes:
            n, m = len(created), len(self.temporaries[op])
            codes = [*range(-1, -n - 1, -1), *self.temporaries[op], *range(-n - 1, -n - m - 1, -1)]
        temporaries: list[tuple[int, int, int]] = []
        for code in codes:
            if code > 0:
                temporaries.append(self._take(code, stream))
            elif -len(created) <= code < 0:
                storage = created[-1 - code]
                self.where[storage] = self._take(self.sizes[storage], stream)
            elif code < 0:
                self._give_back(temporaries[-1 - len(created) - code])

    def _take(self, nbytes: int, stream: int) -> tuple[int, int, int]:
        place = self.items, nbytes, stream
        if nbytes:
            self.items += 1
            self.rows.append((1, *place, *self.at, self._site()))
        return place

    def _give_back(self, place: tuple[int, int, int]) -> None:
        if place[1]:
            self.rows.append((0, *place, *self.at, -1))

    def _site(self) -> int:
        op, phase, _ = self.at
        self.asked += 1
        key = (self.trace.module[op], self.trace.name[op], phase, self.asked) if op >= 0 else ("", "", -1, 0)
        return self.sites.setdefault(key, len(self.sites))
