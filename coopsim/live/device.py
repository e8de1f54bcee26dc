"""The device on which a step is recorded, as the recorder sees it: its bytes, and what its ops cost there by events.

Nothing of the program's is changed. Storages that were evicted (emptied) count no bytes.
"""

import gc
from collections import Counter
from collections.abc import Callable
from ctypes import c_int64
from functools import cache
from typing import Any

import torch

from coopsim.base.text import human
from coopsim.base.types import GRANULE
from coopsim.cards import profiles
from coopsim.live import plan_file
from coopsim.live.observer import Observer
from coopsim.live.tracked import reference
from coopsim.phantom.control import is_phantom
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import Device, RealDevice
from coopsim.record.observe.storages import Ledger, Storage
from coopsim.record.observe.temporaries import History
from coopsim.record.observe.timing import StepTimes
from coopsim.record.observe.torch_private import attach_oom_observer, memory_stats, reset_peak_stats
from coopsim.trace.measure import round_up

_OTHERWISE = "a100-80gb"  #: the card whose prices give costs on a card without a profile


class LiveLedger(Ledger):
    """The recorder's ledger, kept from step to step and aware of evicted storages.

    On the CPU an observer counts the bytes of the memory that PyTorch allocates, in an account that both share.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer
        self._account: Any = observer.account if observer is not None else [0, 0, 0]
        super().__init__()
        self._uncounted: set[Storage] = set()  #: here: they are evicted, or the observer counts their memory
        self._located: dict[int, Callable[[], torch.UntypedStorage | None]] = {}

    def join(self, observer: Observer) -> None:
        """Share the account with an observer, which has counted nothing so far, before a step begins."""
        observer.account[0] = self._account[0]
        self._observer, self._account = observer, observer.account
        for key, slot in list(self._slots.items()):
            if slot.holds is not None and observer.count(key):
                self._take_off(slot.holds)

    @property
    def live_bytes(self) -> int:
        """Bytes of all storages that have memory now."""
        return int(self._account[0] + self._account[2])

    @live_bytes.setter
    def live_bytes(self, nbytes: int) -> None:
        self._account[0] = nbytes - self._account[2]

    @property
    def peak_bytes(self) -> int:
        """The largest value of `live_bytes` since it was set."""
        return int(self._account[1])

    @peak_bytes.setter
    def peak_bytes(self, nbytes: int) -> None:
        self._account[1] = nbytes

    def count_peak(self) -> None:
        """Count the peak from now on, as a step begins."""
        self.peak_bytes = self.live_bytes
        self._located = {key: found for key, found in self._located.items() if found() is not None}

    def of_storage(self, untyped: torch.UntypedStorage) -> Storage | None:
        """The ledger's entry of a storage, made at first sight; None if it has no bytes."""
        key, observer = untyped._cdata, self._observer
        observed = observer is not None and not self.knows(key) and observer.count(key)
        peak = self.peak_bytes
        storage = super().of_storage(untyped)
        if observed and storage is not None:
            self._take_off(storage)
            self.peak_bytes = peak
        return storage

    def locate(self, untyped: torch.UntypedStorage) -> None:
        """Note that the program knows a storage's address, and may use it for as long as the storage lives."""
        self._located[untyped._cdata] = reference(untyped)

    def is_located(self, untyped: torch.UntypedStorage) -> bool:
        """Whether the program knows a storage's address."""
        found = self._located.get(untyped._cdata)
        return found is not None and found() is untyped

    def emptied(self, untyped: torch.UntypedStorage) -> None:
        """Subtract a storage's bytes from `live_bytes`, as the caller has freed its memory.

        Does nothing for a storage that is not entered, or was subtracted already.
        """
        held = self.held(untyped._cdata)
        if held is not None and held not in self._uncounted:
            self._take_off(held)

    def filled(self, untyped: torch.UntypedStorage) -> None:
        """Add a storage's bytes to `live_bytes` again, as the caller has given it memory; the opposite of `emptied`.

        A storage that is not known yet is entered; for one that is counted already, nothing is done.
        """
        held = self.held(untyped._cdata)
        if not self.knows(untyped._cdata):
            self.of_storage(untyped)
        elif held in self._uncounted and self._observer is None:
            self.released(held)  # as if it had never been taken off
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def released(self, storage: Storage) -> None:
        """Correct the count for a storage that is freed: if it was not counted, its bytes had been taken off before."""
        if storage in self._uncounted:
            self._uncounted.remove(storage)
            self.live_bytes += storage.nbytes

    def _take_off(self, storage: Storage) -> None:
        self._uncounted.add(storage)
        self.live_bytes -= storage.nbytes


class CpuDevice(Device):
    """The host's memory, as a device of the recorder: its allocator keeps no count."""

    def __init__(self) -> None:
        self.history = History(available=False)

    @property
    def header(self) -> dict[str, Any]:
        return {"device": "cpu"}


class CudaDevice(RealDevice):
    """A GPU, physical or phantom. The state of its allocator is neither read nor changed."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(available=False)

    def layout(self) -> None:
        """None: the segments are left out, as a snapshot in every step would take too long."""


def find(device_type: str) -> Device:
    """A device for the recorder: a GPU for "cuda", and the host's memory for any other ("cpu")."""
    return CudaDevice() if device_type == "cuda" else CpuDevice()


def cost_model(device_type: str) -> OpCostModel:
    """The costs of ops on the card that is in use; on an A100 for an unknown card, and for the CPU, which uses none."""
    here = profiles.titled(torch.cuda.get_device_name()) if device_type == "cuda" else None
    return OpCostModel(here or profiles.get(_OTHERWISE), None)


@cache
def is_timed(device_type: str) -> bool:
    """Whether ops take time there that events measure: on a card. The phantom GPU's is that of its prices."""
    return device_type == "cuda" and not is_phantom()


class Ooms:
    """How often PyTorch's allocator has found no memory in this process: `count`, kept up to date.

    Requests that no budget could serve do not count, as they fail without one, too. raises: whether to raise Python's
    OutOfMemoryError there, as in all steps with a budget. Some of PyTorch's ops catch the allocator's own: convolutions
    then take another algorithm, which may give other bits, and keep it for as long as the process lives.
    """

    def __init__(self) -> None:
        self.count, self.raises = c_int64(), False
        attach_oom_observer(self._ran_out)

    def _ran_out(self, device: int, nbytes: int, _total: int, free: int) -> None:
        if nbytes > torch.cuda.get_device_properties(device).total_memory:
            return
        self.count.value += 1
        if self.raises:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {human(nbytes)}; the GPU has {human(free)} free"
            )


@cache
def ooms() -> Ooms:
    """The process's only one: PyTorch cannot take an observer back."""
    return Ooms()


def times(device_type: str) -> StepTimes | None:
    """What times the ops of one step; None where they take no time that events measure."""
    return StepTimes() if is_timed(device_type) else None


def card(device_type: str) -> str:
    """The name of the GPU that steps run on, with its bytes of memory; "" for the CPU."""
    if device_type != "cuda":
        return ""
    has = torch.cuda.get_device_properties(torch.cuda.current_device())
    return plan_file.card(has.name, has.total_memory)


class Meter:
    """Measures what the current GPU's allocator hands out in one step, in bytes, workspaces of ops included."""

    def __init__(self) -> None:
        self._allocated = self._reserved = 0
        self._last: dict[str, Any] | None = None
        torch.cuda.reset_peak_memory_stats()
        stats = self._read()
        self._calls, self._retries = _calls(stats), int(stats["num_alloc_retries"])

    def stop(self) -> None:
        """Keep what the allocator says now, as the step is over: all figures are of this time from now on."""
        self._last = self._read()

    def now(self) -> int:
        """Bytes that are allocated now, on the current GPU."""
        return int(self._read()["allocated_bytes"]["all"]["current"])

    def start(self) -> int:
        """Reset the peak before an op runs, and return the bytes that are allocated now."""
        now = self._read()["allocated_bytes"]["all"]["current"]
        reset_peak_stats(torch.cuda.current_device())
        return int(now)

    def peak(self) -> int:
        """The largest number of bytes allocated since `start`."""
        return int(self._read()["allocated_bytes"]["all"]["peak"])

    def most(self) -> tuple[int, int]:
        """The largest numbers of bytes allocated and reserved since this meter was made."""
        self._read()
        return self._allocated, self._reserved

    def calls(self) -> int:
        """How often the allocator has taken memory from the GPU or given it back since this meter was made."""
        return _calls(self._read()) - self._calls

    def retries(self) -> int:
        """How often it has given back its cache to go on since then."""
        return int(self._read()["num_alloc_retries"]) - self._retries

    def others(self, ledger: LiveLedger) -> int:
        """Bytes that are allocated now and are of no storage in `ledger`, such as cuBLAS's workspaces."""
        known = sum(int(round_up(s.nbytes, GRANULE)) for s in ledger.alive())
        return max(self.now() - known, 0)

    def _read(self) -> dict[str, Any]:
        if self._last is not None:
            return self._last
        stats: dict[str, Any] = memory_stats(torch.cuda.current_device())
        self._allocated = max(self._allocated, stats["allocated_bytes"]["all"]["peak"])
        self._reserved = max(self._reserved, stats["reserved_bytes"]["all"]["peak"])
        return stats


def _calls(stats: dict[str, Any]) -> int:
    return int(stats["num_device_alloc"] + stats["num_device_free"])


def reserved() -> int:
    """Bytes that the current GPU's allocator has reserved now.

    They are read directly, as torch.cuda.memory_reserved() flattens all statistics.
    """
    stats: dict[str, Any] = memory_stats(torch.cuda.current_device())
    return int(stats["reserved_bytes"]["all"]["current"])


def here() -> str:
    """The type of device that this process trains on, "cuda" or "cpu": the one with most bytes of parameters.

    Without parameters, "cuda" if CUDA has been used.
    """
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)  # not isinstance: proxies may run code when they are asked
        if issubclass(kind, torch.nn.Parameter) and thing.device.type in ("cuda", "cpu"):
            found[thing.device.type] += thing.nbytes
    if not found:
        return "cuda" if torch.cuda.is_initialized() else "cpu"  # type: ignore[no-untyped-call]
    return found.most_common(1)[0][0]
