"""Places in one block of memory that is reserved as a whole: which are in use, and where there are gaps."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from coopsim.simulate.allocators.serving.plain import pages


class Place(NamedTuple):
    """Bytes of the static pool, from `address` to before `end`."""

    address: int
    end: int


class ServingPlaces:
    """What is in use of a static pool of `height` bytes, made of whole pages of 2 MiB: `used`, sorted."""

    def __init__(self, nbytes: int) -> None:
        self.height = pages(nbytes)
        self.used: list[Place] = []

    def take(self, place: Place) -> None:
        """Use a place that is free."""
        insort(self.used, place)

    def give_back(self, place: Place) -> None:
        """Free a place that is in use."""
        del self.used[bisect_left(self.used, place)]

    def is_free(self, place: Place) -> bool:
        """Whether no byte of it is in use."""
        at = bisect_left(self.used, place)
        return (at == len(self.used) or self.used[at].address >= place.end) and (
            at == 0 or self.used[at - 1].end <= place.address
        )

    def gap(self, nbytes: int, kept: Iterable[Place]) -> Place | None:
        """So many bytes of the smallest gap between what is in use and what is kept; the lowest such."""
        best: Place | None = None
        smallest, floor = self.height + 1, 0
        for place in [*sorted([*self.used, *kept]), Place(self.height, self.height)]:
            if nbytes <= place.address - floor < smallest:
                smallest, best = place.address - floor, Place(floor, floor + nbytes)
            floor = max(floor, place.end)
        return best
