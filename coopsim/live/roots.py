"""Keeps the roots of a step's values for as long as something may be recomputed from them.

A root is a value that no call of the step makes: what was there before, or what PyTorch made unseen, as torch.tensor
does. If the program frees or overwrites it, nothing that comes from it can be recomputed any more.
"""

import sys
from collections.abc import Callable, Collection, Iterable

import torch

from coopsim.live import emptied
from coopsim.live.residency import Residency
from coopsim.live.streams import guard
from coopsim.live.tracked import TrackedStorage, Value
from coopsim.live.victims import Victims
from coopsim.observe.torch_private import storage_at, storage_use_count
from coopsim.types import Role

_EVERY = 16  #: ops between two looks at the small roots; at the others after each op
#: Lives as long as the program's model; gradients are not worth it, as what comes from them is not evicted.
_STAYS = {Role.PARAMETER, Role.OPTIMIZER_STATE, Role.GRADIENT}


Copy = Callable[[torch.UntypedStorage], torch.UntypedStorage]  #: makes a new storage with the same bytes


class Roots:
    """The roots that the ops of a step have read so far.

    Whatever the program frees of them is kept here, counted as any memory, until `release` finds that it is not worth
    its bytes. A root of fewer than `small` bytes is always worth them, and is copied before an op overwrites it. What
    cannot be made again once a root is lost is a root itself from then on.
    """

    def __init__(self, residency: Residency, victims: Victims, small: float) -> None:
        self._residency, self._victims, self._small = residency, victims, small
        self._read: dict[
            TrackedStorage, tuple[int, torch.UntypedStorage]
        ] = {}  # version and storage, which the program has
        self._large: list[TrackedStorage] = []  # of these, those that are not small
        self._kept: dict[Value, int] = {}  # what only we have, with its bytes
        self._looks = 0

    def read(self, found: Iterable[Value]) -> None:
        """Take note of the roots among the values that an op reads."""
        for tracked, version in found:
            if version in tracked.makers or tracked in self._read or version in tracked.held:
                continue
            storage = tracked.ref()
            if storage is None or tracked.evicted or self._residency.ledger.role(tracked.key) in _STAYS:
                continue
            self._read[tracked] = version, storage
            if tracked.nbytes >= self._small:
                self._large.append(tracked)

    def before_change(self, changed: Iterable[TrackedStorage], copy: Copy) -> None:
        """Copy small roots, by `copy`, that the next op overwrites, if an op has read them."""
        for tracked in changed:
            known = self._read.pop(tracked, None)
            if known is None or tracked.nbytes >= self._small or tracked.version != known[0] or tracked.evicted:
                continue
            tracked.held[tracked.version] = copy(known[1])
            self._kept[tracked, tracked.version] = tracked.nbytes

    def overwritten(self, value: Value) -> bool:
        """Whether an op that overwrites a value makes what comes from it impossible to recompute."""
        return value[1] not in value[0].makers and value not in self._kept

    def has(self, root: Value) -> bool:
        """Whether a root is kept here if the program frees it."""
        return root in self._kept or (root[0] in self._read and self._read[root[0]][0] == root[1])

    def lose(self, overwritten: Iterable[Value]) -> None:
        """Take note that the next op overwrites values; nothing is evicted that comes from them."""
        for value in overwritten:
            if self._read.pop(value[0], None) is not None:
                self._pass_on(self._victims.frontier(value) or [])

    def look(self) -> None:
        """Take over the memory of roots that the program has freed since the last look."""
        self._looks += 1
        every = not self._looks % _EVERY
        for tracked in list(self._read) if every else self._large:
            if tracked in self._read and _is_ours(self._read[tracked]):
                self._take_over(tracked)
        if every:
            self._large = [tracked for tracked in self._large if tracked in self._read]

    def release(self, protected: Collection[TrackedStorage]) -> int:
        """Free the largest root that only we have and that is not worth it, and return its bytes; 0 if there is none.

        It is worth it if something is evicted that comes from it, or more than its bytes could not be without it. None
        of `protected` is freed.
        """
        for value, nbytes in sorted(self._kept.items(), key=lambda item: -item[1]):
            if nbytes < self._small:
                break
            if value[0] in protected:
                continue
            frontier = self._victims.frontier(value)
            if frontier is None or any(one[1] in one[0].held and one not in self._kept for one in frontier):
                continue
            if sum(tracked.nbytes for tracked, _ in frontier) <= nbytes:
                self._drop(value)
                self._pass_on(frontier)
                return nbytes
        return 0

    def end(self) -> None:
        """Let go of all, as the step is over."""
        self._read.clear()
        self._large.clear()
        self._kept.clear()

    def _take_over(self, tracked: TrackedStorage) -> None:
        version, storage = self._read.pop(tracked)
        if tracked.evicted or tracked.version != version:  # sent to the host, or overwritten
            return
        own = storage_at(0, storage.device, storage.nbytes())
        emptied.fill(own, storage)
        self._residency.ledger.emptied(storage)
        self._residency.enter(own)
        tracked.held[version] = own
        self._kept[tracked, version] = tracked.nbytes

    def _pass_on(self, frontier: Iterable[Value]) -> None:
        """Let values be roots that could be made until now."""
        for tracked, version in frontier:
            del tracked.makers[version]
        self.read(frontier)

    def _drop(self, value: Value) -> None:
        del self._kept[value]
        tracked, version = value
        storage = tracked.held.pop(version, None)
        if storage is not None:
            for stream in tracked.streams:
                guard(storage, stream)


def _references(entry: tuple[int, torch.UntypedStorage]) -> tuple[int, int]:
    """How many hold the storage of an entry: PyTorch's objects, and Python's."""
    storage = entry[1]
    return storage_use_count(storage._cdata), sys.getrefcount(storage)


#: Of a storage that only an entry holds; it depends on PyTorch's version.
_OURS = _references((0, torch.empty(1).untyped_storage()))


def _is_ours(entry: tuple[int, torch.UntypedStorage]) -> bool:
    return _references(entry) == _OURS
