"""The device of a live step, as the recorder asks for it: nothing of the program's is touched."""

import gc
from collections import Counter
from typing import Any

import torch

from coopsim.live.ledger import LiveLedger
from coopsim.observe.costs import CostModel
from coopsim.observe.device import Device, RealDevice
from coopsim.observe.temporaries import History
from coopsim.observe.torch_private import memory_stats, reset_peak_stats
from coopsim.phantom import profiles
from coopsim.trace.measure import round_up

GRANULE = 512  #: the allocators', of the device and of the arena
_OTHERWISE = "a100-80gb"  #: for costs, where a card is not known


class CpuDevice:
    """The host's memory."""

    has_a_mode = False

    def __init__(self) -> None:
        self.history = History(available=False)
        self.header: dict[str, Any] = {"device": "cpu"}

    def stream(self) -> int:
        """There is one."""
        return 0

    def clear(self, tensor: torch.Tensor) -> None:
        """The data are what a kernel made."""

    def value(self, _func: Any, _args: tuple[Any, ...]) -> Any:
        """Values are what they are."""

    def collective(self) -> None:
        """A program of several ranks is not run by live."""

    def steady(self) -> None:
        """There is no cache."""

    def layout(self) -> list[dict[str, Any]]:
        """Nothing is known of it."""
        return []

    def requested_bytes(self) -> int:
        """Nothing is known of it."""
        return 0

    def peaks(self) -> dict[str, int]:
        """Nothing is known of them."""
        return {}


class CudaDevice(RealDevice):
    """A GPU, or the phantom one. Its allocator's state is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(available=False)

    def layout(self) -> list[dict[str, Any]]:
        """It is not asked for: a snapshot in every step takes too long."""
        return []


def find(kind: str) -> Device:
    """The device of this kind."""
    return CudaDevice() if kind == "cuda" else CpuDevice()


def cost_model(kind: str) -> CostModel:
    """Costs on this device's card; a roofline, which on the CPU is not used."""
    name = _OTHERWISE
    if kind == "cuda":
        title = torch.cuda.get_device_name().lower()
        name = next((card for card, named in profiles.names().items() if named.lower() in title), name)
    return CostModel(profiles.get(name), "tf32" if torch.backends.cuda.matmul.allow_tf32 else "fp32")


class Meter:
    """Bytes that the caching allocator has given out in a step: now, and at most, workspaces of ops included."""

    def __init__(self) -> None:
        self._allocated = self._reserved = 0
        torch.cuda.reset_peak_memory_stats()

    def now(self) -> int:
        """At this moment."""
        return int(self._read()["allocated_bytes"]["all"]["current"])

    def start(self) -> int:
        """An op is about to run: what there is before it."""
        now = self._read()["allocated_bytes"]["all"]["current"]
        reset_peak_stats(torch.cuda.current_device())
        return int(now)

    def peak(self) -> int:
        """The most since `start`."""
        return int(self._read()["allocated_bytes"]["all"]["peak"])

    def most(self) -> tuple[int, int]:
        """Bytes that were given out, and that were taken from the GPU, at most, since this meter is there."""
        self._read()
        return self._allocated, self._reserved

    def others(self, ledger: LiveLedger) -> int:
        """What was given out now to others than the program's storages: cuBLAS's workspaces, what is rounded up."""
        known = sum(int(round_up(s.nbytes, GRANULE)) for s in ledger.alive())
        return max(self.now() - known, 0)

    def _read(self) -> dict[str, Any]:
        stats: dict[str, Any] = memory_stats(torch.cuda.current_device())
        self._allocated = max(self._allocated, stats["allocated_bytes"]["all"]["peak"])
        self._reserved = max(self._reserved, stats["reserved_bytes"]["all"]["peak"])
        return stats


def reserved() -> int:
    """Bytes that the allocator has taken from the GPU: torch.cuda.memory_reserved() makes all its statistics first."""
    stats: dict[str, Any] = memory_stats(torch.cuda.current_device())
    return int(stats["reserved_bytes"]["all"]["current"])


def here() -> str:
    """The kind of device that this process trains on: where most bytes of parameters are."""
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)  # not isinstance: proxies may run code when they are asked
        if issubclass(kind, torch.nn.Parameter) and thing.device.type in ("cuda", "cpu"):
            found[thing.device.type] += thing.nbytes
    if not found:
        return "cuda" if torch.cuda.is_initialized() else "cpu"  # type: ignore[no-untyped-call]
    return found.most_common(1)[0][0]
