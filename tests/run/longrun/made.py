"""Recordings made by hand: programs whose requests are written down, step by step."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from coopsim.run.longrun.recorded import END, EVALUATION, STEP, TRAIN, RecordedSteps, Shapes
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import ALLOCATE, EMPTY, FREE


class Program:
    """Asks an allocator for memory, and marks its steps."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.marks: list[tuple[int, int]] = []
        self.shapes: list[Shapes] = []
        self._taken = 0

    def take(self, nbytes: int) -> int:
        self.rows.append((ALLOCATE, self._taken, nbytes, 0))
        self._taken += 1
        return self._taken - 1

    def free(self, number: int | None) -> None:
        if number is not None:
            self.rows.append((FREE, number, 0, 0))

    def empty(self) -> None:
        self.rows.append((EMPTY, 0, 0, 0))

    def trains(self, *shape: int) -> None:
        self.marks.append((len(self.rows), TRAIN))
        self.shapes.append((shape,))

    def step_ends(self) -> None:
        self.marks.append((len(self.rows), STEP))

    def evaluates(self, body: Callable[[], None]) -> None:
        self.marks.append((len(self.rows), EVALUATION))
        body()
        self.marks.append((len(self.rows), END))

    def recorded(self) -> RecordedSteps:
        rows = np.array(self.rows, np.int64).reshape(-1, 4)
        return RecordedSteps(rows, np.array(self.marks, np.int64).reshape(-1, 2), tuple(self.shapes), "", "2.14.1")


MIB = 1 << 20


def in_two(lengths: Iterable[int]) -> Program:
    """A model like that of `varying`, with steps in two micro-batches.

    Gradients live from the first micro-batch to the next step; the loss and the scores until the next micro-batch's.
    """
    of = Program()
    of.take(8 * MIB)
    gradient = batch = loss = scores = None
    for n, length in enumerate(lengths, 1):
        of.free(gradient)
        gradient = None
        for _ in range(2):
            old, batch = batch, of.take(32 * length)
            of.free(old)
            of.trains(1, length)
            kept = [of.take(3 * MIB // 4 * length) for _ in range(3)]
            old, scores = scores, of.take(8192 * length * length)
            of.free(old)
            old, loss = loss, of.take(4)
            of.free(old)
            if n == 1:
                of.take(8 * MIB)
            if gradient is None:
                gradient = of.take(8 * MIB)
            for block in reversed(kept):
                of.free(block)
        of.step_ends()
    return of


def varying(lengths: Iterable[int], *, empties: int = 0, evaluates: int = 0, leaks: int = 0, grows: int = 0) -> Program:
    """A model of 8 MiB and its gradients; activations of 1.5 MiB and scores of 16 KiB x length per unit of length.

    The loss of a step is dropped in the next one, as is its batch. The cache is emptied every so many steps, and the
    model evaluated, which leaves a score. `leaks`: bytes that each step keeps; `grows`: of a tensor that is replaced by
    a longer one at each step.
    """
    of = Program()
    of.take(8 * MIB)
    loss = batch = score = grown = None
    for n, length in enumerate(lengths, 1):
        if empties and n % empties == 1 and n > 1:
            of.empty()
        if evaluates and (n - 1) % evaluates == 0 and n > 1:
            seen: list[int] = []
            of.evaluates(lambda seen=seen: seen.append(of.take(30 * MIB)))
            of.free(score)
            score = of.take(512)
            of.free(seen[0])
        old, batch = batch, of.take(64 * length)
        of.free(old)
        of.trains(2, length)
        kept = [of.take(3 * MIB // 2 * length) for _ in range(3)]
        scores = of.take(16384 * length * length)
        old, loss = loss, of.take(4)
        of.free(old)
        of.free(scores)
        if n == 1:
            of.take(8 * MIB)
        gradient = of.take(8 * MIB)
        for block in reversed(kept):
            of.free(block)
        of.free(gradient)
        if leaks:
            of.take(leaks)
        if grows:
            old, grown = grown, of.take(grows * n)
            of.free(old)
        of.step_ends()
    return of


def peaks_of_all(of: Program, conf: str = "") -> tuple[int, int]:
    """Peaks of allocated and reserved bytes when all requests are performed."""
    allocator = CachingAllocator("2.14.1", conf)
    allocator.run(of.recorded().rows)
    found = allocator.statistics()
    return found["allocated_bytes.peak"], found["reserved_bytes.peak"]


def a_file(folder: Path, lengths: list[int]) -> Path:
    path = folder / "lengths.txt"
    path.write_text("".join(f"{n}\n" for n in lengths))
    return path
