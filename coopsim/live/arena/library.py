"""The compiled arena (arena.cpp), as Python calls it, and as PyTorch's allocator on GPUs.

From `install` on, before anything is allocated there, its counters answer what programs ask of their allocator: PyTorch
keeps no statistics of a pluggable one.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from coopsim.record.observe import torch_private
from coopsim.record.observe.extension import Extension, NoExtensionError
from coopsim.record.observe.request_order import encode
from coopsim.record.observe.storages import Storage
from coopsim.record.observe.torch_private import device_index

ARENA = Extension("arena", "coopsim.live.arena", ["arena.cpp"], ["-lc10", "-ldl"])


HOST = 64  #: the number of the arena that lies in the host's memory
#: What becomes of requests that find no room: PyTorch's OutOfMemoryError; memory beyond the reservation; an error that
#: no op of PyTorch's catches, RuntimeError in Python.
FAILS, GROWS, RAISES = 0, 1, 2
FIRST_FIT, BEST_FIT = 0, 1  #: placement from the low end, for what stays; and from the high end


class _Stats(ctypes.Structure):
    """The counters of arena.cpp (Stats), in bytes or numbers.

    planned: requests that a plan has addresses for; placed: those of them that got these. outside: bytes taken beyond
    the reservation; taken, given_back: how many blocks were taken from the device for that, and given back to it.
    wanted: bytes of the latest request that failed. zone, when_full: as Arena sets them.
    """

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("size", "allocated", "allocated_peak", "reserved", "reserved_peak", "requested", "requested_peak"),
            *("requests", "ooms", "planned", "placed", "blocks", "outside", "base", "wanted", "taken", "given_back"),
            *("zone", "when_full"),
        )
    ]


@cache
def load() -> Any:
    """The library of the arena, loaded once and compiled if need be. Raises NoExtensionError if that is impossible."""
    try:
        lib = ctypes.CDLL(str(ARENA.file()))
    except OSError as why:
        raise NoExtensionError(str(why)) from None
    lib.coopsim_arena_stats.restype = ctypes.POINTER(_Stats)
    lib.coopsim_arena_malloc.restype = ctypes.c_void_p
    lib.coopsim_arena_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    lib.coopsim_arena_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    lib.coopsim_arena_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.coopsim_arena_size.argtypes = [ctypes.c_int64]
    lib.coopsim_arena_host.argtypes = [ctypes.c_int64, ctypes.c_int64]
    lib.coopsim_arena_logged.restype = lib.coopsim_arena_layout.restype = ctypes.c_int64
    for taking in (lib.coopsim_arena_logged, lib.coopsim_arena_layout):
        taking.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_void_p]
    pointers = [ctypes.c_void_p] * 3
    lib.coopsim_arena_follow.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *pointers]
    return lib


class Arena:
    """The arena of one device.

    device: its number; None: of the device that is current when a step begins. Offsets and sizes are in bytes, and
    multiples of 512.
    """

    def __init__(self, device: int | None = None) -> None:
        self._lib, self._device, self._given = load(), device or 0, device
        self._followed: Any = None  # the number that is followed, kept alive while the library reads it

    @property
    def device_type(self) -> str:
        """The kind of device whose memory it is: "cuda", or "cpu" for the arena in the host's memory (HOST)."""
        return "cpu" if self._device == HOST else "cuda"

    def begin(self) -> None:
        """Begin a step: from now on place requests from the high end, as most are freed soon, and do not grow."""
        if self._given is None:
            self._device = torch.cuda.current_device()
        self.zone(BEST_FIT)
        self.when_full(FAILS)

    def end(self) -> None:
        """End a step: from now on place requests from the low end, as they may stay, by no plan, and do not grow."""
        self.unfollow()
        self.zone(FIRST_FIT)
        self.when_full(FAILS)

    @property
    def stats(self) -> Any:
        """The counters of the arena (Stats in arena.cpp), in bytes or numbers; they change while it is used."""
        return self._lib.coopsim_arena_stats(self._device).contents

    @property
    def ooms(self) -> ctypes.c_int64:
        """How often the arena has found no memory, kept up to date."""
        return ctypes.c_int64.from_buffer(self.stats, _Stats.ooms.offset)

    def reset_peaks(self) -> None:
        """Reset the peaks to what is allocated and reserved now."""
        self._lib.coopsim_arena_reset_peaks(self._device)

    def zone(self, how: int) -> None:
        """Set how requests are placed that no plan has: FIRST_FIT or BEST_FIT."""
        self.stats.zone = how

    def when_full(self, how: int) -> None:
        """Set what becomes of requests that find no room: FAILS, GROWS or RAISES."""
        self.stats.when_full = how

    def log(self) -> None:
        """Start a new log of requests and frees, and drop the one before."""
        self._lib.coopsim_arena_log(self._device)

    def logged(self) -> list[tuple[int, int]]:
        """The log since `log`, in order: (offset, bytes) of each block allocated, (offset, 0) of each of them freed."""
        flat = self._read(self._lib.coopsim_arena_logged, 2)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def layout(self) -> list[tuple[int, int, int]]:
        """The blocks that are allocated now, by ascending offset: (offset, bytes, number of the request that made it).

        Requests are numbered from 0, the arena's first (`stats.requests` counts them).
        """
        flat = self._read(self._lib.coopsim_arena_layout, 3)
        return list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))

    def _read(self, function: Any, width: int) -> list[int]:
        room = 1024
        while True:
            found = (ctypes.c_int64 * (width * room))()
            n = int(function(self._device, room, found))
            if n <= room:
                return found[: width * n]
            room = n

    def follow(self, at: Any, start: Sequence[int], nbytes: Sequence[int], offsets: Sequence[int]) -> None:
        """Place requests at a plan's addresses, until `unfollow`.

        at: a ctypes number that is kept up to date with the entry of the op log that runs; the requests of entry r have
        the numbers start[r] to start[r + 1] - 1. nbytes, offsets: by request; offset -1: it has no address.
        """
        arrays = [(ctypes.c_int64 * max(len(values), 1))(*values) for values in (start, nbytes, offsets)]
        self._followed = at
        self._lib.coopsim_arena_follow(self._device, ctypes.byref(at), len(start) - 1, *arrays)

    def unfollow(self) -> None:
        """Place requests without a plan."""
        self._lib.coopsim_arena_follow(self._device, None, 0, None, None, None)
        self._followed = None


Log = Sequence[tuple[int, int]]  #: Arena.logged


def of_op(log: Log, base: int, creates: Sequence[Storage]) -> tuple[list[int], list[int]]:
    """The temporaries of an op, each in bytes, and its requests in order, encoded as in trace.Trace.

    log: what it requested and freed (Arena.logged).

    The temporaries are those alive together when they took most, in bytes. base: the address of the arena. creates: the
    storages that the op has made. Blocks that it took besides and did not free, as cuBLAS's workspaces, are left out:
    the op does not request them when it runs again.
    """
    made = {storage.address for storage in creates}
    asked = [(base + offset, nbytes) for offset, nbytes in log]
    asked = [(at, n) for i, (at, n) in enumerate(asked) if not n or at in made or (at, 0) in asked[i:]]
    most: list[int] = []
    there: dict[int, int] = {}
    for i, (address, nbytes) in enumerate(asked):
        if not nbytes:
            there.pop(address, None)
        elif address not in made or (address, 0) in asked[i:]:
            there[address] = nbytes
            if sum(there.values()) > sum(most):
                most = list(there.values())
    return most, encode(asked, creates)


def install(nbytes: int) -> None:
    """Install an arena of `nbytes` on each device that is used; 0: of nearly all that is free.

    Raises NoExtensionError without CUDA or a compiler, and once CUDA has been used.
    """
    if torch.version.cuda is None:
        raise NoExtensionError("this torch has no CUDA")
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise NoExtensionError("CUDA has been used already")
    lib = load()
    lib.coopsim_arena_size(nbytes)
    file = str(ARENA.file())
    allocator = torch.cuda.memory.CUDAPluggableAllocator(file, "coopsim_arena_malloc", "coopsim_arena_free")
    record = ctypes.cast(lib.coopsim_arena_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)  # type: ignore[no-untyped-call]
    torch.cuda.memory.change_current_allocator(allocator)
    _answer()


def _answer() -> None:
    """Let torch.cuda.memory_stats and all that derives from it, and mem_get_info, answer from the arena's counters.

    Resets of peaks reset the arena's; limits on the memory's fraction do nothing.
    """
    answers = {
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": lambda device: Arena(device).reset_peaks(),
        "_cuda_resetAccumulatedMemoryStats": lambda _device: None,
        "_cuda_setMemoryFraction": lambda _fraction, _device: None,
        "_cuda_getMemoryFraction": lambda _device: 1.0,
        "_accelerator_getDeviceStats": stats,
        "_accelerator_resetPeakStats": lambda device: Arena(device).reset_peaks(),
        "_accelerator_resetAccumulatedStats": lambda _device: None,
    }
    for name, answer in answers.items():
        if torch_private.has(f"torch._C.{name}"):
            torch_private.replace(f"torch._C.{name}", answer)
    torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = mem_get_info


def stats(device: int) -> dict[str, Any]:
    """The statistics of a device's arena, nested as those of torch._C._cuda_memoryStats.

    Nothing is cached, so active equals allocated. All of it is in the large pool.
    """
    s = Arena(device).stats
    segments = int(s.reserved > 0)
    found: dict[str, Any] = {
        "num_alloc_retries": 0,
        "num_ooms": s.ooms,
        "num_sync_all_streams": 0,
        "num_device_alloc": segments + s.taken,
        "num_device_free": s.given_back,
        "max_split_size": -1,
    }
    for name, now, peak in (
        *((name, s.allocated, s.allocated_peak) for name in ("allocated_bytes", "active_bytes")),
        ("requested_bytes", s.requested, s.requested_peak),
        ("reserved_bytes", s.reserved, s.reserved_peak),
        *((name, s.blocks, s.blocks) for name in ("allocation", "active")),
        ("segment", segments, segments),
        *((name, 0, 0) for name in ("inactive_split", "inactive_split_bytes")),
    ):
        large = {"current": now, "peak": peak, "allocated": peak, "freed": peak - now}
        found[name] = {"all": large, "small_pool": dict.fromkeys(large, 0), "large_pool": large}
    zeros = found["inactive_split"]["all"]
    return found | dict.fromkeys(("oversize_allocations", "oversize_segments"), zeros)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes and size of a device's arena, in bytes, in place of the card's. device: as torch.cuda takes it."""
    index = device_index(device, optional=True)
    s = Arena(index).stats
    return s.size - (s.allocated - s.outside), s.size
