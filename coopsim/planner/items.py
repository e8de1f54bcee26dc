"""What is to be planned: sizes, lifetimes, alignments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.types import CoopsimError

Ints = NDArray[np.int64]

_MOST = 1 << 62  #: bytes of all items together, so that no sum of offsets overflows


class PlanError(CoopsimError):
    """The items contradict themselves, or a file of them is none. One line that names the item or row."""


@dataclass(frozen=True)
class Items:
    """Arrays of equal length: item i takes `bytes[i]` from time `start[i]` until before `end[i]`.

    Its offset must be a multiple of `alignment[i]`, in bytes.
    """

    bytes: Ints
    start: Ints
    end: Ints
    alignment: Ints

    @classmethod
    def of(cls, nbytes: Any, start: Any, end: Any, alignment: Any = None) -> "Items":
        """Items of any sequences of integers; no alignment means 1. Raises PlanError for what cannot be."""
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
        """Raise PlanError for an item that cannot be; `names` are what to call them (default: item and number)."""
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
    """The times at which an item starts or ends, sorted, and the bytes alive from each until the next."""
    times = np.unique(np.concatenate([items.start, items.end]))
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, items.start), items.bytes)
    np.add.at(change, np.searchsorted(times, items.end), -items.bytes)
    return times, np.cumsum(change)


def lower_bound(items: Items) -> int:
    """Most bytes alive at once: no plan is lower. Alignment is not counted, so that with it the bound may be weak."""
    return int(live_bytes(items)[1].max(initial=0))


def quantum(items: Items) -> int:
    """The largest number that divides all sizes and alignments (all offsets, then, can be its multiples).

    With every alignment 1, only the sizes count: items pushed down rest on sums of sizes.
    """
    aligned = items.alignment[items.alignment > 1]
    return int(np.gcd.reduce(np.concatenate([items.bytes, aligned]), initial=0)) or 1
