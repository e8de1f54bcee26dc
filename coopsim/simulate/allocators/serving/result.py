"""What an allocator made of the requests, and what its authors call fragmentation."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Result:
    """Peaks in bytes, each taken by itself over all requests.

    `requested`: as asked for; `allocated`: of the blocks handed out, in this allocator's rounding; `active`: of blocks
    that cannot be handed out (the same, unless a freed one waits for another stream); `reserved`: held of the device.
    `device_allocs` and `device_frees` count the calls that make and free physical memory. `details` are counts of the
    allocator's own.
    """

    allocator: str
    peak_requested: int
    peak_allocated: int
    peak_active: int
    peak_reserved: int
    device_allocs: int
    device_frees: int
    details: Mapping[str, int] = field(default_factory=dict)

    @property
    def fragmentation(self) -> float:
        """What its authors call so."""
        return self.reserved_but_inactive if self.allocator == "gmlake" else self.reserved_but_unallocated

    @property
    def reserved_but_unallocated(self) -> float:
        """1 - peak allocated / peak reserved: STAlloc's and STWeaver's fragmentation."""
        return _lost(self.peak_allocated, self.peak_reserved)

    @property
    def reserved_but_inactive(self) -> float:
        """1 - peak active / peak reserved: GMLake's fragmentation."""
        return _lost(self.peak_active, self.peak_reserved)


class ServingOutOfMemory(Exception):  # noqa: N818  (it is an outcome, not a programmer's error)
    """The device has not enough memory left for a request, whatever the allocator tries.

    `memory` 0: it would have, but the allocator's rules refuse the request.
    """

    def __init__(self, needed: int, reserved: int, memory: int) -> None:
        limit = f" of {memory}" if memory else ""
        super().__init__(f"{needed} bytes needed, {reserved}{limit} reserved")
        self.needed, self.reserved, self.memory = needed, reserved, memory


class ServingMeter:
    """Keeps peaks while an allocator works."""

    def __init__(self) -> None:
        self.now = {"requested": 0, "allocated": 0, "waiting": 0, "reserved": 0}
        self.peak = dict(self.now) | {"active": 0}
        self.device_allocs = self.device_frees = 0

    def add(self, what: str, nbytes: int) -> None:
        """`nbytes` more of it, or less if negative."""
        self.now[what] += nbytes
        self.peak[what] = max(self.peak[what], self.now[what])
        self.peak["active"] = max(self.peak["active"], self.now["allocated"] + self.now["waiting"])

    def wait(self, nbytes: int) -> None:
        """`nbytes` are given back, but stay active until another stream is done with them; negative: it is."""
        self.now["allocated"] -= nbytes
        self.add("waiting", nbytes)

    def reserve(self, nbytes: int) -> None:
        """Memory made by the device."""
        self.device_allocs += 1
        self.add("reserved", nbytes)

    def release(self, nbytes: int) -> None:
        """Memory given back to the device."""
        self.device_frees += 1
        self.add("reserved", -nbytes)

    def result(self, allocator: str, details: Mapping[str, int]) -> Result:
        """The peaks so far. Active is what is allocated, and what waits for another stream."""
        peak = self.peak
        return Result(
            allocator,
            peak["requested"],
            peak["allocated"],
            peak["active"],
            peak["reserved"],
            self.device_allocs,
            self.device_frees,
            details,
        )


def _lost(used: int, reserved: int) -> float:
    return 1 - used / reserved if reserved else 0.0
