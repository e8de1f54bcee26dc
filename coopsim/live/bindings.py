"""Which storages of a running step stand for those of a plan, and where the step differs from the plan."""

from collections.abc import Iterable, Sequence

import torch

from coopsim.live.plan import Row
from coopsim.live.tracked import TrackedStorage


class Deviation(Exception):  # noqa: N818 (no error: such a step goes on without the plan)
    """The step differs from the one that the plan was made for. The message says how."""


class Outgrown(Deviation):
    """The step's data are larger than those that the plan was made for."""


class Bindings:
    """storages: the tracked storages of a step that a plan watches, by their numbers in its trace."""

    def __init__(self) -> None:
        self.storages: dict[int, TrackedStorage] = {}
        self._by_key: dict[int, TrackedStorage] = {}

    def add(self, s: int, tracked: TrackedStorage) -> None:
        """Let a tracked storage stand for storage `s` of the plan."""
        self.storages[s] = tracked
        self.note([tracked])
        tracked.number = s

    def note(self, found: Iterable[TrackedStorage]) -> None:
        """Let `of` find what has been entered in `storages`."""
        for tracked in found:
            self._by_key[tracked.key] = tracked

    def of(self, storage: torch.UntypedStorage) -> TrackedStorage | None:
        """What tracks a storage, while Python follows; None if the plan does not watch it."""
        tracked = self._by_key.get(storage._cdata)
        return tracked if tracked is not None and tracked.ref() is storage else None

    def bind(self, watched: Iterable[tuple[int, int]], found: Sequence[torch.Tensor]) -> None:
        """Match tensors with the storages of the plan. Deviation if a storage was matched with another before.

        watched: (position in `found`, storage of the plan).
        """
        for i, s in watched:
            if i >= len(found):
                raise Deviation("has other operands")
            storage = found[i].untyped_storage()
            tracked = self.storages.get(s)
            if tracked is None:
                self.add(s, TrackedStorage(storage))
            elif tracked.ref() is not storage:
                raise Deviation("works on other tensors")

    def check_changed(self, row: Row, given: Iterable[torch.Tensor]) -> None:
        """Raise Deviation if an op that works in place would change a storage that the plan takes to be unchanged.

        given: the op's operands. row: what the plan has in its place.
        """
        expected = {self.storages[s] for _, s in row.look}
        for tensor in given:
            tracked = self.of(tensor.untyped_storage())
            if tracked is not None and tracked not in expected:
                raise Deviation("changes other tensors")


def check_elements(row: Row, given: Iterable[torch.Tensor]) -> None:
    """Raise Outgrown if an operand in `given` has more elements than in the step that the plan was made for."""
    if any(tensor.numel() > n for tensor, n in zip(given, row.elements, strict=False)):
        raise Outgrown("works on larger tensors")
