"""The budget as a cap on what PyTorch's caching allocator takes from the GPU; that of an arena is in arena/cap.py.

At the cap the allocator first returns the free blocks that it caches; if that is not enough, the op runs out of memory,
and values can be evicted.
"""

import torch

from coopsim.base import alloc_conf
from coopsim.base.budget import memory_fraction
from coopsim.live import device
from coopsim.live.arena.cap import ArenaCap
from coopsim.record.observe import torch_private

_STEP = 2 << 20  #: bytes that the allocator takes from the GPU at once, at least
_PART = 128  #: a cap that is too low is raised by the limit divided by this


class CachingCap:
    """A cap on PyTorch's caching allocator during one step, by way of its per-process memory fraction.

    Between `set` and `lift` the allocator takes at most `limit` bytes from the current GPU. If the program has set a
    lower fraction itself, that stays. trims: whether to empty the allocator's cache once, as the step begins.
    """

    def __init__(self, limit: int, *, trims: bool = False) -> None:
        self._trims = trims
        #: By which the allocator may exceed its cap.
        self._page = alloc_conf.PAGE if alloc_conf.EXPANDABLE in alloc_conf.here() else 0
        self._limit = limit - min(self._page, limit // _PART)
        self._now = self._limit
        self._device = torch.cuda.current_device()
        self._total = torch.cuda.get_device_properties(self._device).total_memory
        self._before: float | None = None

    def set(self) -> None:
        """Apply the limit, unless the program has set a lower one.

        Empty the allocator's cache if it exceeds that by more than a page: pages that each step takes stay.
        """
        before = torch.cuda.get_per_process_memory_fraction(self._device)
        if self._limit < before * self._total:
            if self._trims or device.reserved() > self._limit + self._page:
                torch.cuda.empty_cache()
            self._trims = False
            self._before = before
            self._allow(self._limit)

    @staticmethod
    def empty() -> None:
        """Give back what the allocator caches, and cuBLAS's workspaces, which it takes again where it needs them."""
        torch_private.get("torch._C._cuda_clearCublasWorkspaces")()
        torch.cuda.empty_cache()

    @property
    def holds(self) -> bool:
        """Whether an op that runs out of memory does so because of the limit: the program has not set a lower one."""
        return self._before is not None

    def higher(self, most: int | None = None) -> bool:
        """Raise the limit by 1/128 of it, or by 2 MiB if that is more, to `most` bytes at most; return whether it was.

        It is not raised if it is not applied (`holds`), or is at `most` already.
        """
        wanted = self._now + max(self._limit // _PART, _STEP)
        if self._before is None or (most is not None and self._now >= most):
            return False
        self._allow(wanted if most is None else min(wanted, most))
        if self._now >= self._before * self._total:
            self.lift()
        return True

    def exceeded(self, limit: int) -> bool:
        """Whether the allocator has reserved more than `limit` bytes."""
        return device.reserved() > limit

    def lift(self) -> None:
        """Restore the fraction that the program had set; does nothing if the limit is not applied."""
        if self._before is not None:
            torch.cuda.set_per_process_memory_fraction(self._before, self._device)
            self._before = None

    end = lift

    def _allow(self, nbytes: int) -> None:
        self._now = nbytes
        torch.cuda.set_per_process_memory_fraction(memory_fraction(nbytes, self._total), self._device)


AllocatorCap = CachingCap | ArenaCap  #: of one step, whichever allocator serves it
