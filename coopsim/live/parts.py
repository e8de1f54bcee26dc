"""Lets PyTorch's optimizers update their tensors in parts, so that no op of theirs reads all of them at once.

An optimizer that works on lists (`foreach`, `fused`) makes a list for each device and type, and updates one after the
other. It takes shorter lists as well. Each tensor is updated by itself, so its bits do not depend on the lists.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.record.observe import torch_private

#: What PyTorch's optimizers call to sort their tensors by device and type.
_GROUPED = "torch.optim.Optimizer._group_tensors_by_device_and_dtype"
IN_PARTS = "in_parts"  #: in the header of a step's trace, whether its lists were short
_PARTS = 16  #: of a list; its bytes divided by this are the most in a part, unless one tensor has more


class Parts:
    """Between `watch` and `forget`, the lists of all optimizers of this process are short.

    without_plan: steps of a session that have no plan update in parts, as one had no room for whole lists.
    """

    def __init__(self) -> None:
        self.without_plan = False
        self._whole: Callable[..., Any] | None = None

    def watch(self, needed: Callable[[int], bool] = lambda _nbytes: True) -> None:
        """Replace what makes the lists. needed: whether they have to be short, given the bytes of one."""
        self._needed = needed
        self._whole = torch_private.get(_GROUPED)
        torch_private.replace(_GROUPED, staticmethod(self._in_parts))

    def forget(self) -> None:
        """Restore it; does nothing if it is not replaced."""
        if self._whole is not None:
            torch_private.replace(_GROUPED, staticmethod(self._whole))
            self._whole = None

    def _in_parts(self, lists: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
        assert self._whole is not None
        whole: dict[Any, Any] = self._whole(lists, with_indices)
        if not self._needed(sum(t.nbytes for group, _ in whole.values() for t in group[0] if t is not None)):
            return whole
        found: dict[Any, Any] = {}
        for key, (group, indices) in whole.items():
            for a, b in _cut([tensor.nbytes for tensor in group[0]]):
                found[_Key(key)] = [one[a:b] for one in group], indices[a:b]
        return found


class _Key(tuple[torch.device, torch.dtype]):
    """A device and a type, of one part among several."""

    __hash__, __eq__ = object.__hash__, object.__eq__


def _cut(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """The parts, from one number of a tensor up to another."""
    begin, nbytes, most = 0, 0, sum(sizes) // _PARTS
    for i, size in enumerate(sizes):
        if i > begin and nbytes + size > most:
            yield begin, i
            begin, nbytes = i, 0
        nbytes += size
    yield begin, len(sizes)
