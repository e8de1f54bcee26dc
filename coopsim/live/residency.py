"""Where each value of a step is: on the device, on the host, being copied, or nowhere, so that it has to be made again.

A value is a version of a storage's bytes. To evict is to free the memory of a value that is on the host, or can be made
again. A storage without memory keeps its identity, its size and its tensors' version counters, so the program and
autograd's graph go on referring to it, and views of it can be made. Reading its data raises the error of errors.py.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch

from coopsim.live import observer
from coopsim.live.copies import Copies, Engines, HostArea
from coopsim.live.device import LiveLedger
from coopsim.live.errors import TRAP_TEXT, LiveError
from coopsim.live.streams import Streams
from coopsim.live.tracked import TrackedStorage, Value
from coopsim.record.observe import torch_private
from coopsim.record.observe.extension import NoExtensionError
from coopsim.record.observe.torch_private import set_error_of_reading, storage_at


class Residency:
    """The memory of the values of one step, on devices of one type, "cuda" or "cpu", and on the host.

    area: of the host, where the copies of plans lie. streams: of all steps; None on the CPU. evictions, recomputes: how
    many there were in this step. spills, spilled_bytes: copies to the host without a plan.
    """

    def __init__(self, device_type: str, ledger: LiveLedger, area: HostArea, streams: Streams | None) -> None:
        self.device_type, self.ledger, self.streams = device_type, ledger, streams
        #: Evicted tracked storages, by key, in order of eviction.
        self.evicted: dict[int, TrackedStorage] = {}
        self.copies = Copies(area, streams or Engines())
        self.evictions = self.recomputes = self.spills = self.spilled_bytes = 0

    # -- on the device -----------------------------------------------------------------------------------------------

    def memory_of(self, value: Value) -> torch.UntypedStorage | None:
        """A storage that has the bytes of a value: the one held for it, or the program's; None if there is none."""
        tracked, version = value
        held = tracked.held.get(version)
        if held is not None:
            return held
        return tracked.ref() if tracked.version == version and not tracked.evicted else None

    def evicted_at(self, storage: torch.UntypedStorage) -> TrackedStorage | None:
        """What tracks a storage that is evicted; None for any other."""
        tracked = self.evicted.get(storage._cdata)
        return tracked if tracked is not None and tracked.ref() is storage else None

    @property
    def left(self) -> list[Value]:
        """The evicted values that the program refers to."""
        return [(tracked, tracked.version) for tracked in self.evicted.values() if tracked.ref() is not None]

    def must_stay(self, tracked: TrackedStorage) -> bool:
        """Whether a tracked storage must not be evicted, as its address is in use.

        The program or autograd knows it, or a copy to the host reads it.
        """
        storage = tracked.ref()
        used = storage is not None and (self.copies.reads(storage) or self.ledger.is_located(storage))
        return tracked.pinned or used or (self.streams is not None and self.streams.needs(tracked))

    def evict(self, value: Value) -> None:
        """Free the memory of a value: let go of it if it is held, and empty its storage if that has this version.

        The storage keeps its memory if it must stay; a value without memory is left as it is.
        """
        tracked, version = value
        tracked.held.pop(version, None)
        storage = tracked.ref()
        if tracked.version != version or tracked.evicted or storage is None or self.must_stay(tracked):
            return
        if self.streams is not None:
            self.streams.guard(storage, tracked)
        tracked.evicted = True
        self.evicted[tracked.key] = tracked
        empty(storage)
        self.ledger.emptied(storage)
        self.evictions += 1

    def assign(self, value: Value, storage: torch.UntypedStorage) -> None:
        """Give a value's bytes to the program's storage if that is empty and has this version; else hold them."""
        tracked, version = value
        theirs = tracked.ref() if tracked.version == version else None
        if theirs is None:
            tracked.held[version] = storage
        elif tracked.evicted:
            fill(theirs, storage)
            # Only now, so that it comes back however this is interrupted.
            tracked.evicted, tracked.made_again = False, True
            self.evicted.pop(tracked.key, None)
            self.ledger.emptied(storage)
            self.ledger.filled(theirs)
            if self.streams is not None:
                self.streams.guard(theirs, tracked)

    # -- on the host -------------------------------------------------------------------------------------------------

    def arrived(self, value: Value, storage: torch.UntypedStorage) -> None:
        """Take over a storage to which a value was copied from the host."""
        if self.streams is not None:
            self.streams.after_again(())
        self.assign(value, storage)

    def end(self) -> None:
        """The step is over."""
        self.copies.end()
        if self.streams is not None:
            self.streams.end()


def check_storages() -> None:
    """Raise LiveError for a torch whose storages cannot be emptied."""
    try:
        _swap()
        _set_error()
    except (NoExtensionError, OSError, AttributeError) as why:
        raise LiveError(
            f"coopsim.live needs a C++ compiler, or torch 2.12 or later built with CUDA, not {torch.__version__}: {why}"
        ) from None


def empty(storage: torch.UntypedStorage) -> None:
    """Free a storage's memory, which makes it empty; its size stays what it is. `fill` gives it memory again."""
    hole = storage_at(0, storage.device, storage.nbytes())
    _swap()(storage, hole)
    _set_error()(storage._cdata, TRAP_TEXT)


def fill(storage: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
    """Swap the memory of two storages, so that `storage` gets that of `source`. Nothing is copied."""
    _swap()(storage, source)


@cache
def _swap() -> Callable[[torch.UntypedStorage, torch.UntypedStorage], object]:
    """What swaps the memory of two storages: PyTorch's own, or the observer's before 2.12.

    Raises what `observer.load` raises.
    """
    if torch_private.has("torch.UntypedStorage._swap_data_ptr_"):
        return torch.UntypedStorage._swap_data_ptr_  # type: ignore[attr-defined, no-any-return]
    own = observer.load().coopsim_swap
    return lambda a, b: own(ctypes.c_void_p(a._cdata), ctypes.c_void_p(b._cdata))


@cache
def _set_error() -> Callable[[int, str], None]:
    """What sets the error of reading a storage: PyTorch's own, or the observer's in a build without CUDA.

    Raises what `observer.load` raises.
    """
    if torch_private.has("torch._C._set_storage_data_ptr_access_error_msg"):
        return set_error_of_reading
    own = observer.load().coopsim_trap
    return lambda address, text: own(ctypes.c_void_p(address), text.encode())
