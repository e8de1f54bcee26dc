"""Rows of integers of different lengths, as two arrays."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Ragged:
    """Rows of integers of different lengths: row i is `values[start[i]:start[i + 1]]`."""

    start: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> "Ragged":
        lists = [list(row) for row in rows]
        return cls.of_lengths([len(row) for row in lists], [x for row in lists for x in row])

    @classmethod
    def of_lengths(cls, lengths: list[int], values: list[int]) -> "Ragged":
        """Rows of these lengths, one after the other in `values`."""
        return cls(np.append(0, np.cumsum(lengths, dtype=np.int64)), np.array(values, np.int64))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, i: int) -> list[int]:
        row: list[int] = self.values[self.start[i] : self.start[i + 1]].tolist()
        return row

    def __iter__(self) -> Iterator[list[int]]:
        """Row by row, as lists: what to use where one pass is enough, as all at once take much memory."""
        flat, at = self.values.tolist(), self.start.tolist()
        return (flat[a:b] for a, b in itertools.pairwise(at))

    def rows(self) -> list[list[int]]:
        """All rows as lists; cheaper than indexing one by one."""
        return list(self)
