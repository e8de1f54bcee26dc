"""Sizes that ops take from data: an op counts on the device, and the host reads the counter, which no kernel fills."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from coopsim.record.observe.known import ASSUMED, FROM_HOST, MASKED, Known, on_host
from coopsim.record.observe.masks import Masks
from coopsim.record.observe.shares import Shares
from coopsim.record.observe.tags import Choice, looks_for_zeros

#: Select by masks among their indices.
INDEX = frozenset(f"aten::{name}" for name in ("index", "index_put", "index_put_", "_index_put_impl_"))
#: Other ops whose sizes depend on data, though their tags do not say it: what they count is at most the first's rows.
UNTAGGED = frozenset(("aten::_coalesce", "aten::_to_sparse", "torchvision::nms"))

_MASKS = (torch.bool, torch.uint8)


def sized_by_data(func: Any, operands: Sequence[torch.Tensor]) -> bool:
    """Whether an op's results have as many elements as its data say: of indexing, if there are masks among indices."""
    if func._schema.name in INDEX:
        return any(index.dtype in _MASKS for index in operands[1:])
    return torch.Tag.dynamic_output_shape in func.tags or func._schema.name in UNTAGGED


class CountedSize(NamedTuple):
    """`counted`: the number that an op counts on the device; `times`: how often the host reads it.

    `by`: what the number rests on: "even" (a share, shares.py), "masks" (what is assumed of masks), "" (it is certain).
    """

    counted: int
    by: str = ""
    times: int = 1


class Sizes:
    """Predicts what ops count on the device."""

    def __init__(self, known: Known, shares: Shares, masks: Masks) -> None:
        self._known, self._shares, self._masks = known, shares, masks
        self._has_read = False
        self._rules: dict[str, Callable[[Any, dict[str, Any]], CountedSize | None]] = {
            "aten::nonzero": lambda args, _: CountedSize(0) if looks_for_zeros() else self.of(args[0]),
            "aten::masked_select": lambda args, _: self.of(args[1], _broadcast(args[0], args[1])),
            "aten::_unique": self._unique,
            "aten::_unique2": self._unique,
            "aten::unique_consecutive": self._unique,
            "aten::unique_dim": self._unique,
            "aten::unique_dim_consecutive": self._unique,
            "aten::bincount": self._bincount,
            "aten::_coalesce": lambda args, _: self._unknown(args[0]._nnz()),
            "aten::_to_sparse": lambda args, _: self.of(args[0]),
            "torchvision::nms": lambda args, _: self._unknown(args[0].shape[0]),
        }

    def note_read(self) -> None:
        """Note that the host has read data of which nothing is known."""
        self._has_read = True

    def counted(self, func: Any, args: Any, kwargs: dict[str, Any]) -> CountedSize | None:
        """Return what an op will count on the device; None if it counts nothing there, or what is not understood."""
        name = func._schema.name
        first = args[0] if args else None
        if not isinstance(first, torch.Tensor) or not first.is_cuda:
            return None
        if name in INDEX:
            return self._index(args)
        rule = self._rules.get(name)
        return rule(args, kwargs) if rule is not None else None

    def of(self, mask: torch.Tensor, shape: torch.Size | None = None) -> CountedSize:
        """Return how many elements of a mask, broadcast to `shape`, are not zero: by its values if these are known.

        Else by its share of true elements, if that is known, and else by what is assumed of masks.
        """
        shape = mask.shape if shape is None else shape
        if self._known.has(mask):
            count = int(torch.count_nonzero(on_host(mask).expand(shape)))
            # One that keeps nothing may be made of what was read: zeros.
            if count or not (self._has_read and self._known.rests_on(mask) & FROM_HOST):
                return CountedSize(count, self.by(mask))
        share, n = self._shares.share(mask), math.prod(shape)
        return self._unknown(n) if share is None else CountedSize(_part(share, n), "even")

    def total(self, repeats: torch.Tensor) -> CountedSize:
        """Return the sum of a tensor's values, which `repeat_interleave` takes as the size of its result.

        If they are not known and memory holds zeros, it is their number times the share that masks are assumed to keep.
        """
        total = int(on_host(repeats).sum())
        if total > 0 or self._known.has(repeats):
            return CountedSize(total, self.by(repeats))
        return self._unknown(repeats.numel())

    def by(self, tensor: torch.Tensor) -> str:
        """Return what the values of a known tensor rest on, as Size.by: "masks", "even", or "" if they are certain."""
        rests_on = self._known.rests_on(tensor)
        return "masks" if rests_on & MASKED else "even" if rests_on & ASSUMED else ""

    def _unknown(self, n: int) -> CountedSize:
        return CountedSize(_part(self._masks.share, n), "masks")

    def _unique(self, args: Any, kwargs: dict[str, Any]) -> CountedSize | None:
        x = args[0]
        dim = next((a for a in (*args[1:], kwargs.get("dim")) if isinstance(a, int) and not isinstance(a, bool)), None)
        if not x.numel():
            return None
        n = x.numel() if dim is None else x.shape[dim]
        if x.dtype is torch.bool and dim is None:  # it counts those that are true, and gives the values that occur
            return CountedSize(_part(self._masks.share / 2, n), "masks")
        tag = self._shares.of(x)
        if dim is None and isinstance(tag, Choice):
            return CountedSize(min(tag.of, n), "even")
        if dim is None and self._known.has(x):
            return CountedSize(int(on_host(x).unique().numel()))
        return self._unknown(n)

    def _bincount(self, args: Any, kwargs: dict[str, Any]) -> CountedSize | None:
        """Return the answer to bincount, which reads the smallest value, then the largest."""
        x, tag = args[0], self._shares.of(args[0])
        least = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
        if self._known.has(x) or not x.numel():
            return None
        if isinstance(tag, Choice):
            return CountedSize(tag.low + tag.of - 1, "even", times=2)
        found = self._unknown(x.numel())
        return found if least else found._replace(counted=max(found.counted - 1, 0), times=2)

    def _index(self, args: Any) -> CountedSize | None:
        """Return the size for x[mask] or x[mask] = values: that of what goes with the mask, if there is something."""
        x, indices = args[:2]
        masks = [index for index in indices if index is not None and index.dtype in _MASKS and index.is_cuda]
        if not masks:
            return None
        values = args[2] if len(args) > 2 else None
        fixed = self._beside(indices) or (self._assigned(x, indices, values) if values is not None else None)
        if fixed is not None:
            return CountedSize(fixed, times=len(masks))
        found = min((self.of(mask) for mask in masks), key=lambda size: size.counted)
        return found._replace(times=len(masks))

    def _beside(self, indices: Any) -> int | None:
        """Return the length of index tensors that go with a mask."""
        others = [i for i in indices if i is not None and i.dtype not in _MASKS and i.dim() and i.shape[-1] != 1]
        return others[0].shape[-1] if others else None

    def _assigned(self, x: torch.Tensor, indices: Any, values: torch.Tensor) -> int | None:
        """Return how many values are assigned; None: they are broadcast."""
        spans = [0 if i is None else i.dim() if i.dtype in _MASKS else 1 for i in indices]
        at = [number for number, span in enumerate(spans) if span]
        together = at[-1] - at[0] + 1 == len(at)
        free = x.dim() - sum(span or 1 for span in spans)  # dimensions after all that the index names
        behind = free if together else free + spans.count(0)
        behind += len(spans) - 1 - at[-1] if together else 0
        if values.dim() <= behind or values.shape[-behind - 1] == 1:
            return None
        return int(values.shape[-behind - 1])


def _part(share: float, n: int) -> int:
    return math.ceil(share * n - 1e-9)


def _broadcast(one: torch.Tensor, other: torch.Tensor) -> torch.Size:
    return torch.broadcast_shapes(one.shape, other.shape)  # type: ignore[no-untyped-call, no-any-return]
