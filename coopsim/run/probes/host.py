"""Memory of the host: what the training process and its workers take, what is pinned, and who made it.

Sampled at the ends of steps, at most once per second. The phantom's device memory is anonymous memory of the process as
far as data was copied there; it is left out. CUDA's own libraries, which a card needs beside it, are not loaded here.
"""

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import dataloader

from coopsim.base.types import KIB
from coopsim.record.observe.private import hooked
from coopsim.run.probes import places
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.records_memory import HostMemory, Loader, Pinned, Workers

_EVERY_S = 1.0
_MORE = 1.05  #: a process's memory is taken apart when it is so many times what it was at the last time
_DEVICE = 16 << 30  #: the phantom's device memory is a mapping of at least so many bytes, as no other is


class HostProbe(Probe):
    """Follows this process and its children."""

    name = "host"

    def __init__(self) -> None:
        self._next = 0.0
        self._seen = self._peak = self._shared = 0
        self._workers: dict[int, int] = {}  # by process: its peak
        self.batches = 0  #: of the data loader that was iterated last; 0 if not known
        self._loaders: dict[str, Loader] = {}
        self._pinned: Counter[str] = Counter()

    def install(self) -> None:
        self._wrap_loaders()
        self._wrap_pinning()

    def step_ended(self, _steps: int) -> None:
        """Take a sample, unless the last was just taken."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            self._sample()

    def report(self, found: ProcessReport) -> None:
        self._sample()
        stats: dict[str, Any] = {}
        if torch.cuda.is_initialized() and hasattr(torch.cuda, "host_memory_stats"):  # type: ignore[no-untyped-call]
            stats = torch.cuda.host_memory_stats()  # from PyTorch 2.7 on
        found.host = HostMemory(
            peak_rss_bytes=self._peak,
            workers=Workers(len(self._workers), sum(self._workers.values())),
            shared_bytes=self._shared,
            loaders=list(self._loaders.values()),
            pinned_bytes=int(stats.get("allocated_bytes.peak", 0)),
            pinned_by=[Pinned(place, nbytes) for place, nbytes in self._pinned.most_common(3)],
        )

    def _sample(self) -> None:
        own = _status("self")
        if own["VmRSS"] > _MORE * self._seen:
            self._seen = own["VmRSS"]
            self._peak = max(self._peak, self._seen - _in_device())
        shared = 0
        for pid in _children():
            of = _status(pid)
            self._workers[pid] = max(self._workers.get(pid, 0), of.get("VmHWM", 0))
            shared += of.get("RssShmem", 0)
        self._shared = max(self._shared, shared, own["RssShmem"])

    def _wrap_loaders(self) -> None:
        kind: Any = dataloader._BaseDataLoaderIter

        def began(begin: Any, it: Any, loader: Any) -> None:
            begin(it, loader)
            try:
                self.batches = len(loader)
            except (TypeError, NotImplementedError):  # an iterable of unknown length
                self.batches = 0
            if loader.num_workers:
                place = places.here()
                self._loaders[place] = Loader(place, loader.num_workers, loader.prefetch_factor, loader.pin_memory)

        kind.__init__ = hooked(kind.__init__, began)

    def _wrap_pinning(self) -> None:
        main, kind = threading.main_thread(), torch.Tensor

        def pins(pin: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            out = pin(tensor, *args, **kwargs)
            if out is not tensor:
                by_loader = threading.current_thread() is not main
                place = next((of.place for of in self._loaders.values() if of.pins and by_loader), "")
                self._pinned[place or places.here()] += out.untyped_storage().nbytes()
            return out

        kind.pin_memory = hooked(kind.pin_memory, pins)  # type: ignore[method-assign]


def _status(pid: int | str) -> dict[str, int]:
    """The sizes in a process's status, in bytes; {} if it has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[name] = int(value.removesuffix(" kB")) * KIB
    return found


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (task / "children").read_text(encoding="utf-8").split())
        except OSError:
            continue  # the thread has ended, or the kernel does not tell
    return [pid for pid in found if pid != os.getpid()]


def _in_device() -> int:
    """The bytes of this process that are the phantom's device memory."""
    found, inside = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as file:
        for line in file:
            first = line.split(" ", 1)[0]
            if not first.endswith(":"):
                begin, _, end = first.partition("-")
                inside = int(end, 16) - int(begin, 16) >= _DEVICE
            elif inside and first == "Rss:":
                found += int(line.split()[1]) * KIB
    return found
