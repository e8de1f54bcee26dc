"""The area of the host's memory where offloaded values lie: one allocation, page-locked where the device is a GPU."""

import mmap
import weakref
from dataclasses import dataclass
from pathlib import Path

import torch

from coopsim.live.host.engines import Engines, engines_of
from coopsim.observe.torch_private import DisableTorchDispatch
from coopsim.text import human


@dataclass(frozen=True)
class HostBytes:
    """Bytes of the host's memory, from `at` on in a storage. No tensor, which would be taken for the program's."""

    storage: torch.UntypedStorage
    at: int
    nbytes: int

    def tensor(self) -> torch.Tensor:
        """A tensor of them, to be used at once."""
        with DisableTorchDispatch():
            return torch.empty(0, dtype=torch.uint8).set_(self.storage, self.at, (self.nbytes,), (1,))


class HostArea:
    """Grows between steps, to what the largest plan needs. kind: of the device, "cuda" or "cpu".

    On the CPU it is ordinary memory that no budget counts.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._bytes: torch.UntypedStorage | None = None
        self._engines: Engines | None = None

    @property
    def engines(self) -> Engines:
        """The engines that copy to it and from it, made at the first copy."""
        if self._engines is None:
            self._engines = engines_of(self._kind)
        return self._engines

    @property
    def nbytes(self) -> int:
        """Its size in bytes; 0 before the first plan that offloads."""
        return self._bytes.nbytes() if self._bytes is not None else 0

    def reserve(self, nbytes: int) -> str:
        """Make the area at least so large. Return why that is not possible, in one line; "" if it is.

        What was in it is there only for who still refers to it.
        """
        if nbytes <= self.nbytes:
            return ""
        self._bytes = None
        free = _available() if self._kind == "cuda" and not _is_phantom() else nbytes
        if nbytes > free:
            return f"{human(nbytes)} of the host's memory are needed, and {human(free)} are free"
        try:  # whole pages, of no allocator that anybody counts
            memory = mmap.mmap(-1, nbytes)
        except (OSError, OverflowError):
            return f"the host gives no {human(nbytes)}"
        with DisableTorchDispatch():
            found = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
        if self._kind == "cuda" and not _locked(found):
            return f"{human(nbytes)} of the host's memory cannot be page-locked"
        self._bytes = found
        return ""

    def place(self, at: int, nbytes: int) -> HostBytes:
        """The bytes from `at` on."""
        assert self._bytes is not None
        assert at + nbytes <= self.nbytes
        return HostBytes(self._bytes, at, nbytes)


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


def _is_phantom() -> bool:
    from coopsim.phantom.control import Control
    from coopsim.phantom.errors import PhantomError

    try:
        Control()
    except PhantomError:
        return False
    return True


def _available() -> int:
    """Bytes of the host's memory that are free for programs, by Linux's estimate."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return 0
