"""The budget as a cap of PyTorch's caching allocator: before it takes more, it gives back what it keeps for later."""

import os
from collections.abc import Callable
from typing import Protocol

import torch

from coopsim.live import device
from coopsim.live.arena.hole import Hole
from coopsim.live.cells import Cell
from coopsim.live.values import Values
from coopsim.live.victims import Victims

_STEP = 2 << 20  #: the least that the allocator takes from the GPU at once
_PART = 128  #: of the limit, by which a cap that is too low is raised
_PAGE = 20 << 20  #: of an expandable segment: as much more may be taken than the cap says


class AllocatorCap(Protocol):
    """A limit of what the device's allocator takes, whichever allocator that is. One for each step."""

    #: Does the allocator leave gaps between blocks that no request fits? Then it needs more than what is allocated.
    fragments: bool

    def set(self) -> None:
        """Apply the limit."""

    @property
    def holds(self) -> bool:
        """Is the limit what lets ops run out of memory?"""

    def higher(self) -> bool:
        """Raise the limit a little, for the rest of the step. False: it cannot be raised."""

    def exceeded(self, limit: int) -> bool:
        """Has the allocator taken more bytes than `limit`?"""

    def lift(self) -> None:
        """Take the limit away until `set`."""

    def end(self) -> None:
        """A step is over."""

    def hole(self, values: Values, victims: Victims, evict: Callable[[Cell], None]) -> Hole | None:
        """What finds room for a request that got none; None where evicting alone does."""


class CachingCap:
    """Between `set` and `lift` the allocator takes `limit` bytes from the GPU at most, and ops may run out of memory.

    A limit that the program has set itself stays if it is lower.
    """

    fragments = True

    def __init__(self, limit: int) -> None:
        self._limit = limit - (min(_PAGE, limit // _PART) if _expandable() else 0)
        self._now = self._limit
        self._device = torch.cuda.current_device()
        self._total = torch.cuda.get_device_properties(self._device).total_memory
        self._before: float | None = None

    def set(self) -> None:
        """From now on."""
        before = torch.cuda.get_per_process_memory_fraction(self._device)
        if self._limit < before * self._total:
            if device.reserved() > self._limit:
                torch.cuda.empty_cache()
            self._before = before
            self._allow(self._limit)

    @property
    def holds(self) -> bool:
        """Is it set, and lower than what the program has anyway?"""
        return self._before is not None

    def higher(self) -> bool:
        """A little more than until now. False: it cannot be raised."""
        if self._before is None:
            return False
        self._allow(self._now + max(self._limit // _PART, _STEP))
        if self._now >= self._before * self._total:
            self.lift()
        return True

    def exceeded(self, limit: int) -> bool:
        """Has the allocator taken more than this?"""
        return device.reserved() > limit

    def lift(self) -> None:
        """No more."""
        if self._before is not None:
            torch.cuda.set_per_process_memory_fraction(self._before, self._device)
            self._before = None

    def end(self) -> None:
        """A step is over."""
        self.lift()

    def hole(self, _values: Values, _victims: Victims, _evict: Callable[[Cell], None]) -> None:
        """PyTorch's allocator finds room itself."""

    def _allow(self, nbytes: int) -> None:
        self._now = nbytes
        torch.cuda.set_per_process_memory_fraction(min((nbytes + 0.5) / self._total, 1.0), self._device)


def _expandable() -> bool:
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    return any("expandable_segments:True" in os.environ.get(name, "") for name in names)
