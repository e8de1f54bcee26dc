"""The items of a planning problem: sizes, lifetimes and alignments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import CoopsimError

Ints = NDArray[np.int64]

_MOST = 1 << 62  #: bytes of all items together, so that no sum of offsets overflows


class PlanError(CoopsimError):
    """Items are invalid, or a file has none. The message, of one line, names the item or the row."""


@dataclass(frozen=True)
class Items:
    """Items as arrays of equal length: item i takes `bytes[i]` bytes from time `start[i]` until before `end[i]`.

    Its offset must be a multiple of `alignment[i]` bytes. Times are integers of any unit. An index or a mask in
    brackets selects items.
    """

    bytes: Ints
    start: Ints
    end: Ints
    alignment: Ints

    @classmethod
    def of(cls, nbytes: Any, start: Any, end: Any, alignment: Any = None) -> "Items":
        """Items from sequences of integers; the default alignment is 1. Raises PlanError as `check` does."""
        nbytes, start, end = (np.array(column, np.int64).reshape(-1) for column in (nbytes, start, end))
        if alignment is None:
            alignment = np.ones(len(nbytes), np.int64)
        items = cls(nbytes, start, end, np.array(alignment, np.int64).reshape(-1))
        items.check()
        return items

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, chosen: Any) -> "Items":
        return Items(self.bytes[chosen], self.start[chosen], self.end[chosen], self.alignment[chosen])

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raise PlanError for a negative size, an empty lifetime, an alignment below 1, or more than 4 EiB in all.

        names: of the items, for the message; by default "item" and its number.
        """
        for bad, reason, values in (
            (self.bytes < 0, "a negative size", self.bytes),
            (self.end <= self.start, "an end that is not after its start", self.end),
            (self.alignment < 1, "an alignment below 1", self.alignment),
        ):
            if bad.any():
                i = int(np.argmax(bad))
                raise PlanError(f"{names[i] if names else f'item {i}'} has {reason} ({values[i]})")
        if self.bytes.astype(np.float64).sum() + self.alignment.astype(np.float64).sum() > _MOST:
            raise PlanError("the sizes and alignments add up to more than 4 EiB")


def live_bytes(items: Items) -> tuple[Ints, Ints]:
    """The sorted times at which items start or end, and the bytes alive from each of them until the next."""
    times = np.unique(np.concatenate([items.start, items.end]))
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, items.start), items.bytes)
    np.add.at(change, np.searchsorted(times, items.end), -items.bytes)
    return times, np.cumsum(change)


def lower_bound(items: Items) -> int:
    """The largest number of bytes alive at once: no plan is lower. It ignores alignments, with which it may be weak."""
    return int(live_bytes(items)[1].max(initial=0))


def quantum(items: Items) -> int:
    """The greatest common divisor of all sizes and of the alignments above 1, in bytes.

    There is a lowest plan whose offsets are multiples of it: items that are pushed down rest on sums of sizes.
    """
    aligned = items.alignment[items.alignment > 1]
    return int(np.gcd.reduce(np.concatenate([items.bytes, aligned]), initial=0)) or 1
