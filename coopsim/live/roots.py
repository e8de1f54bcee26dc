"""Keeps the roots of a step's values for as long as something may be recomputed from them.

A root is a value that no call of the step makes: what was there before, or what PyTorch made unseen, as torch.tensor
does. If the program frees or overwrites it, nothing that comes from it can be recomputed any more.
"""

import sys
from collections.abc import Callable, Collection, Iterable

import torch

from coopsim.live import hollow
from coopsim.live.cells import Cell, Value
from coopsim.live.residency import Residency
from coopsim.live.streams import guard
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
        self._read: dict[Cell, tuple[int, torch.UntypedStorage]] = {}  # version and storage, which the program has
        self._large: list[Cell] = []  # of these, those that are not small
        self._kept: dict[Value, int] = {}  # what only we have, with its bytes
        self._looks = 0

    def read(self, found: Iterable[Value]) -> None:
        """Take note of the roots among the values that an op reads."""
        for cell, version in found:
            if version in cell.makers or cell in self._read or version in cell.held:
                continue
            storage = cell.ref()
            if storage is None or cell.gone or self._residency.ledger.role(cell.key) in _STAYS:
                continue
            self._read[cell] = version, storage
            if cell.nbytes >= self._small:
                self._large.append(cell)

    def before_change(self, changed: Iterable[Cell], copy: Copy) -> None:
        """Copy small roots, by `copy`, that the next op overwrites, if an op has read them."""
        for cell in changed:
            known = self._read.pop(cell, None)
            if known is None or cell.nbytes >= self._small or cell.version != known[0] or cell.gone:
                continue
            cell.held[cell.version] = copy(known[1])
            self._kept[cell, cell.version] = cell.nbytes

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
        for cell in list(self._read) if every else self._large:
            if cell in self._read and _is_ours(self._read[cell]):
                self._take_over(cell)
        if every:
            self._large = [cell for cell in self._large if cell in self._read]

    def release(self, leave: Collection[Cell]) -> int:
        """Free the largest root that only we have and that is not worth it, and return its bytes; 0 if there is none.

        It is worth it if something is evicted that comes from it, or more than its bytes could not be without it. None
        of `leave` is freed.
        """
        for value, nbytes in sorted(self._kept.items(), key=lambda item: -item[1]):
            if nbytes < self._small:
                break
            if value[0] in leave:
                continue
            frontier = self._victims.frontier(value)
            if frontier is None or any(one[1] in one[0].held and one not in self._kept for one in frontier):
                continue
            if sum(cell.nbytes for cell, _ in frontier) <= nbytes:
                self._drop(value)
                self._pass_on(frontier)
                return nbytes
        return 0

    def end(self) -> None:
        """Let go of all, as the step is over."""
        self._read.clear()
        self._large.clear()
        self._kept.clear()

    def _take_over(self, cell: Cell) -> None:
        version, storage = self._read.pop(cell)
        if cell.gone or cell.version != version:  # sent to the host, or overwritten
            return
        own = storage_at(0, storage.device, storage.nbytes())
        hollow.fill(own, storage)
        self._residency.ledger.emptied(storage)
        self._residency.enter(own)
        cell.held[version] = own
        self._kept[cell, version] = cell.nbytes

    def _pass_on(self, frontier: Iterable[Value]) -> None:
        """Let values be roots that could be made until now."""
        for cell, version in frontier:
            del cell.makers[version]
        self.read(frontier)

    def _drop(self, value: Value) -> None:
        del self._kept[value]
        cell, version = value
        storage = cell.held.pop(version, None)
        if storage is not None:
            for stream in cell.streams:
                guard(storage, stream)


def _references(entry: tuple[int, torch.UntypedStorage]) -> tuple[int, int]:
    """How many hold the storage of an entry: PyTorch's objects, and Python's."""
    storage = entry[1]
    return storage_use_count(storage._cdata), sys.getrefcount(storage)


#: Of a storage that only an entry holds; it depends on PyTorch's version.
_OURS = _references((0, torch.empty(1).untyped_storage()))


def _is_ours(entry: tuple[int, torch.UntypedStorage]) -> bool:
    return _references(entry) == _OURS
