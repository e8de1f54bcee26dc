"""The copies on the host of a plan, which engines make beside the ops."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from coopsim.live.host.area import BACK, OUT, Engines, HostArea, Mark
from coopsim.record.observe.torch_private import DisableTorchDispatch

Key = tuple[int, int]  #: number of the storage in the plan's trace, and version

Allocate = Callable[[int], torch.UntypedStorage]  #: memory of so many bytes on the device


@dataclass(slots=True)
class _OnHost:
    """A copy, in the area from `at` on. end: of the copy out.

    source: what it is made of, until that is evicted.
    """

    at: int
    nbytes: int
    end: Mark
    source: torch.UntypedStorage | None
    evicted: bool = False


class Copies:
    """Copies of one step, to an area and back, that `engines` make."""

    def __init__(self, area: HostArea, engines: Engines) -> None:
        self._area, self._engines = area, engines
        self._host: dict[Key, _OnHost] = {}
        self._coming: dict[Key, tuple[torch.UntypedStorage, Mark]] = {}
        self.offloads = self.offloaded_bytes = 0

    def any_on_host(self) -> bool:
        """Whether a value is on the host only, or on its way back."""
        return bool(self._coming) or any(copy.evicted for copy in self._host.values())

    def has(self, key: Key) -> bool:
        """Whether the value is on the host only, or on its way back."""
        copy = self._host.get(key)
        return key in self._coming or (copy is not None and copy.evicted)

    def reads(self, storage: torch.UntypedStorage) -> bool:
        """Whether a copy out may still read the storage, whose memory must not move or go."""
        return any(copy.source is storage for copy in self._host.values())

    def coming(self) -> Iterator[torch.UntypedStorage]:
        """Memory that values are being fetched to."""
        yield from (storage for storage, _ in self._coming.values())

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

    def fetch(self, key: Key, allocate: Allocate) -> torch.UntypedStorage | None:
        """Begin to copy a value that is on the host only to newly allocated memory, which is returned; else None."""
        copy = self._host.get(key)
        if copy is None or not copy.evicted or key in self._coming:
            return None
        storage = allocate(copy.nbytes)
        place = self._area.place(copy.at, copy.nbytes)
        self._coming[key] = storage, self._engines.begin(BACK, bytes_of(storage), place)
        return storage

    def arrive(self, key: Key) -> torch.UntypedStorage | None:
        """Let what follows wait for a value that was fetched; return its memory. None if it is not on its way.

        `arrived` has to follow once the value has that memory.
        """
        if key not in self._coming:
            return None
        storage, end = self._coming[key]
        self._engines.wait(BACK, end)
        return storage

    def arrived(self, key: Key) -> None:
        """Forget the copy of a value that has its memory."""
        self._coming.pop(key, None)
        self._host[key].evicted = False

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
        self.wait_for_all()
        for _, end in self._coming.values():
            self._engines.wait(BACK, end)
        self._coming.clear()
        self._host.clear()


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """A tensor of all bytes of a storage, to be used at once."""
    with DisableTorchDispatch():
        return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
