"""The copies on the host of a plan, which engines make beside the ops, and the area of its memory where they lie.

The area is one allocation, page-locked where the device is a GPU. There is one engine per direction.
"""

import mmap
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from coopsim.base.text import human
from coopsim.phantom.control import is_phantom
from coopsim.record.observe.torch_private import DisableTorchDispatch
from coopsim.run.launch import host_limit

OUT, BACK = 0, 1  #: directions: to the host, from the host

Mark = Any  #: the end of a copy, as its engines know it


class Engines:
    """They make the copies in each direction in the order in which they begin: on the CPU at once.

    Of a GPU they are streams of its own (Streams).
    """

    def begin(self, _way: int, to: torch.Tensor, source: torch.Tensor) -> Mark:
        """Begin a copy, after all that the program's streams have been given; return a mark of its end."""
        with DisableTorchDispatch():
            to.copy_(source)

    def wait(self, way: int, end: Mark) -> None:
        """Let all that follows on the program's streams come after the end of a copy."""


class HostArea:
    """Grows between steps, to what the largest plan needs. device_type: "cuda" or "cpu".

    On the CPU it is ordinary memory that no budget counts.
    """

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type
        self._bytes: torch.UntypedStorage | None = None

    @property
    def nbytes(self) -> int:
        """Its size in bytes; 0 before the first plan that offloads."""
        return self._bytes.nbytes() if self._bytes is not None else 0

    def reserve(self, nbytes: int) -> str:
        """Make the area at least so large. Return why that is not possible, in one line; "" if it is.

        What was in it is there only for who still refers to it. If it cannot be larger, it is as large as before, as
        plans that exist copy to it.
        """
        if nbytes <= self.nbytes:
            return ""
        before, self._bytes = self.nbytes, None
        why = self._allocate(nbytes)
        if why and before:
            self._allocate(before)
        return why

    def _allocate(self, nbytes: int) -> str:
        found = host_memory(nbytes, mmap.MAP_SHARED)  # a fork must not move what is page-locked
        if found is None:
            return f"{human(nbytes)} of the host's memory are needed, and {human(available())} are free"
        if self._device_type == "cuda" and not _locked(found):
            return f"{human(nbytes)} of the host's memory cannot be page-locked"
        self._bytes = found
        return ""

    def place(self, at: int, nbytes: int) -> torch.Tensor:
        """A tensor of the bytes from `at` on, to be used at once: it would be taken for the program's."""
        assert self._bytes is not None
        assert at + nbytes <= self.nbytes
        with DisableTorchDispatch():
            return torch.empty(0, dtype=torch.uint8).set_(self._bytes, at, (nbytes,), (1,))


def host_memory(nbytes: int, sharing: int = mmap.MAP_PRIVATE) -> torch.UntypedStorage | None:
    """So much of the host's memory, in whole pages, of no allocator that anybody counts. None if it has not as much.

    Else Linux would promise it, and end some process once it is written to. On the phantom GPU only zeros are, which
    take none if they are private.
    """
    try:
        if not is_phantom() and nbytes > available():
            return None
        memory = mmap.mmap(-1, nbytes, flags=sharing | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None
    with DisableTorchDispatch():
        return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


def _locked(memory: torch.UntypedStorage) -> bool:
    """Page-lock memory as it is: PyTorch's own pinned allocator takes powers of two."""
    runtime, address = torch.cuda.cudart(), memory.data_ptr()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    if int(runtime.cudaHostRegister(address, memory.nbytes(), 0)) != 0:
        return False
    weakref.finalize(memory, _unlock, address).atexit = False
    return True


def _unlock(address: int) -> None:
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaHostUnregister(address)  # type: ignore[no-untyped-call]


def available() -> int:
    """Bytes of the host's memory that are free for this process, less a sixteenth; 0 if nobody says."""
    left, _ = host_limit.free() or (0, 0)
    return left * 15 // 16


Key = tuple[int, int]  #: number of the storage in the plan's trace, and version

Allocate = Callable[[int], torch.UntypedStorage]  #: memory of so many bytes on the device


@dataclass(slots=True)
class _OnHost:
    """A copy, in the area from `at` on. end: of the copy out.

    source: what it is made of, until that is evicted. evicted: whether it is the value's only one. back: new memory of
    the value, to which it is being copied, and the end of that.
    """

    at: int
    nbytes: int
    end: Mark
    source: torch.UntypedStorage | None
    evicted: bool = False
    back: tuple[torch.UntypedStorage, Mark] | None = None


class Copies:
    """Copies of one step, to an area and back, that `engines` make."""

    def __init__(self, area: HostArea, engines: Engines) -> None:
        self._area, self._engines = area, engines
        self._host: dict[Key, _OnHost] = {}
        self.offloads = self.offloaded_bytes = 0

    def any_on_host(self) -> bool:
        """Whether a value is on the host only, or on its way back."""
        return any(copy.evicted for copy in self._host.values())

    def has(self, key: Key) -> bool:
        """Whether the value is on the host only, or on its way back."""
        copy = self._host.get(key)
        return copy is not None and copy.evicted

    def reads(self, storage: torch.UntypedStorage) -> bool:
        """Whether a copy out may still read the storage, whose memory must not move or go."""
        return any(copy.source is storage for copy in self._host.values())

    def offload(self, key: Key, source: torch.UntypedStorage, at: int) -> None:
        """Begin to copy a value to the area's bytes from `at` on, once all ops so far are done."""
        nbytes = source.nbytes()
        end = self._engines.begin(OUT, self._area.place(at, nbytes), bytes_of(source))
        self._host[key] = _OnHost(at, nbytes, end, source)
        self.offloads += 1
        self.offloaded_bytes += nbytes

    def finish_offload(self, key: Key) -> bool:
        """Let what follows wait until a value is on the host, whose memory may go then. False if it has no copy."""
        copy = self._host.get(key)
        if copy is None:
            return False
        self._wait_for(copy)
        copy.evicted = True
        return True

    def fetch(self, key: Key, allocate: Allocate) -> None:
        """Begin to copy a value to newly allocated memory, if it is on the host only, and not on its way yet."""
        copy = self._host.get(key)
        if copy is not None and copy.evicted and copy.back is None:
            storage = allocate(copy.nbytes)
            place = self._area.place(copy.at, copy.nbytes)
            copy.back = storage, self._engines.begin(BACK, bytes_of(storage), place)

    def arrive(self, key: Key) -> torch.UntypedStorage | None:
        """Let what follows wait for a value that was fetched; return its memory. None if it is not on its way.

        `arrived` has to follow once the value has that memory.
        """
        copy = self._host.get(key)
        if copy is None or copy.back is None:
            return None
        storage, end = copy.back
        self._engines.wait(BACK, end)
        return storage

    def arrived(self, key: Key) -> None:
        """Note that a value has its memory."""
        self._host[key].evicted, self._host[key].back = False, None

    def wait_for_all(self) -> None:
        """Let what follows wait for all copies out, and forget those of values that were not evicted."""
        for key, copy in list(self._host.items()):
            self._wait_for(copy)
            if not copy.evicted:
                del self._host[key]

    def _wait_for(self, copy: _OnHost) -> None:
        self._engines.wait(OUT, copy.end)
        copy.source = None

    def end(self) -> None:
        """The step is over."""
        for copy in self._host.values():
            self._wait_for(copy)
            if copy.back is not None:
                self._engines.wait(BACK, copy.back[1])
        self._host.clear()


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """A tensor of all bytes of a storage, to be used at once."""
    with DisableTorchDispatch():
        return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
