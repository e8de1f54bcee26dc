"""The compiled arena, as Python calls it."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from coopsim.live.arena.build import ARENA
from coopsim.observe.extension import NoExtensionError

HOST = 64  #: the number of the arena that lies in the host's memory
FIRST_FIT, BEST_FIT = 0, 1  #: from the low end, for what stays; from the high end


class _Stats(ctypes.Structure):
    """arena.cpp's Stats. placed: of `planned` requests, those that got the plan's place. wanted: by one without."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("size", "allocated", "allocated_peak", "reserved", "reserved_peak", "requested", "requested_peak"),
            *(
                "requests",
                "frees",
                "ooms",
                "planned",
                "placed",
                "blocks",
                "outside",
                "waits",
                "largest",
                "base",
                "wanted",
            ),
        )
    ]


@cache
def load() -> Any:
    """Compile it, if need be, and load it. NoExtensionError if it cannot be had."""
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
    lib.coopsim_arena_serve_cpu.argtypes = [ctypes.c_int64]
    lib.coopsim_arena_zone.argtypes = [ctypes.c_int, ctypes.c_int64]
    lib.coopsim_arena_next.argtypes = [ctypes.c_int, ctypes.c_int64]
    pointers = [ctypes.c_void_p] * 3
    lib.coopsim_arena_follow.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *pointers, ctypes.c_int64]
    return lib


class Arena:
    """The arena of one device; without a number, of the one that is current when a step begins.

    Offsets and sizes are in bytes, multiples of 512.
    """

    def __init__(self, device: int | None = None) -> None:
        self._lib, self._device, self._given = load(), device or 0, device
        self._told: Any = None  # what is followed: the library reads the number in it that says where the step is

    @property
    def kind(self) -> str:
        """Of the memory: of GPUs, `cuda`; the host's, `cpu`."""
        return "cpu" if self._device == HOST else "cuda"

    def begin(self) -> None:
        """A step begins: what it asks for is given back soon, in the main."""
        if self._given is None:
            self._device = torch.cuda.current_device()
        self.zone(BEST_FIT)
        self.may_grow(yes=False)

    def end(self) -> None:
        """It is over: what comes may stay."""
        self.unfollow()
        self.zone(FIRST_FIT)
        self.may_grow(yes=False)

    @property
    def stats(self) -> Any:
        """Its counters, as they are now."""
        return self._lib.coopsim_arena_stats(self._device).contents

    def reset_peaks(self) -> None:
        """Peaks begin anew, with what there is now."""
        self._lib.coopsim_arena_reset_peaks(self._device)

    def zone(self, how: int) -> None:
        """Where requests go from now on that no plan has: FIRST_FIT or BEST_FIT."""
        self._lib.coopsim_arena_zone(self._device, how)

    def may_grow(self, *, yes: bool) -> None:
        """May it take more than was reserved, from now on?"""
        self._lib.coopsim_arena_may_grow(self._device, int(yes))

    def put_next(self, offset: int) -> None:
        """The next request goes there, if it is free."""
        self._lib.coopsim_arena_next(self._device, offset)

    def log(self) -> None:
        """Write down requests from here on."""
        self._lib.coopsim_arena_log(self._device)

    def logged(self) -> list[tuple[int, int]]:
        """Those since `log`: offset and bytes of what was taken, (offset, 0) for what of it was given back."""
        flat = self._read(self._lib.coopsim_arena_logged, 2)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def layout(self) -> list[tuple[int, int, int]]:
        """Offset, bytes and number of the request of each block that there is, from the lowest up."""
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

    def follow(self, at: Any, start: Sequence[int], nbytes: Sequence[int], offsets: Sequence[int], height: int) -> None:
        """Put requests where a plan has them, from now on.

        at: a number of ctypes that says which entry of the plan's tape runs; of entry r are the requests from start[r]
        to start[r + 1]. offsets: -1 where there is no place. height: above that nothing is planned.
        """
        arrays = [(ctypes.c_int64 * max(len(values), 1))(*values) for values in (start, nbytes, offsets)]
        self._told = at
        self._lib.coopsim_arena_follow(self._device, ctypes.byref(at), len(start) - 1, *arrays, height)

    def unfollow(self) -> None:
        """And no more."""
        self._lib.coopsim_arena_follow(self._device, None, 0, None, None, None, 0)
        self._told = None
