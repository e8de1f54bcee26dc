"""How often values occur that no kernel has computed: what a router chooses, and masks that are made of that.

An index that `topk`, `argmax`, `multinomial` and the like give is one of so many, each as often as any other. So a
comparison with one of them is true for its share, and so is a column of a one-hot mask, or of what `scatter_` makes.
Sums and `bincount` of these are counts, which are written to the device's memory, as even as they can be. Integers that
are made of truth values are masks, too.
"""

import math
import weakref
from typing import Any

import torch

from coopsim.phantom.control import Control
from coopsim.record.observe import effects, finite
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.known import ASSUMED, FINITE, MASKED, Known, on_host
from coopsim.record.observe.masks import Masks
from coopsim.record.observe.native import NativeLedger
from coopsim.record.observe.storages import Ledger, Storage
from coopsim.record.observe.tags import Choice, Kept, Tag, Truth, even, is_integral, looks_for_zeros, moved, put, spread

#: Give indices along a dimension: name -> (number of the result, name of the argument).
_ALONG = {
    "topk": 1,
    "sort": 1,
    "max": 1,
    "min": 1,
    "median": 1,
    "mode": 1,
    "kthvalue": 1,
    "argmax": 0,
    "argmin": 0,
    "argsort": 0,
}
_COPIES = frozenset(
    ("_to_copy", "clone", "index", "index_select", "repeat", "flip", "roll", "copy", "gather", "take", "view_copy")
)
_PUTS = (torch.ops.aten.scatter, torch.ops.aten.scatter_)
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_REDUCE = frozenset(("sum", "count_nonzero", "any", "all", "max", "min", "argmax", "bincount", "histc"))
BEGIN = frozenset(f"aten::{name}" for name in (*_ALONG, "multinomial", "randint", "randperm", "any"))


class Shares:
    """Follows a program's ops, and keeps the tag (tags.py) of each storage, until an op changes it by unknown rules."""

    def __init__(self, ledger: Ledger | NativeLedger, known: Known, masks: Masks) -> None:
        self._ledger, self._known, self._masks = ledger, known, masks
        self._tags: weakref.WeakKeyDictionary[Storage, Tag] = weakref.WeakKeyDictionary()
        self._maybe: weakref.WeakSet[Storage] = weakref.WeakSet()
        self._control = Control()

    def of(self, value: Any) -> Tag | None:
        """Return the tag of a tensor's storage; None if it has none, or if `value` is no tensor of the device."""
        if not self._tags or not isinstance(value, torch.Tensor) or not value.is_cuda:
            return None
        storage = self._ledger.of(value)
        return self._tags.get(storage) if storage is not None else None

    def maybe(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is the single truth value that `any` made of a mask of which nothing is known."""
        storage = self._ledger.of(tensor) if self._maybe else None
        return storage is not None and storage in self._maybe

    def share(self, tensor: torch.Tensor) -> float | None:
        """Return the share (0 to 1) of a tensor's elements that are not zero, by its tag; None if no tag tells it."""
        match self.of(tensor):
            case Truth(share):
                return share
            case Choice(of, low):
                return 1 - 1 / of if low <= 0 < low + of else 1.0
        return None

    def kept(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return what a mask that nothing has computed is taken to keep: a tensor like it, on the host, of 0 and 1.

        That many are 1 as its tag says, or else as masks are assumed to keep. None if the tensor is no mask.
        """
        tag = self.of(tensor)
        if tensor.is_floating_point() or (tensor.dtype is not torch.bool and not isinstance(tag, Truth | Kept)):
            return None
        share = tag.share if isinstance(tag, Truth) else self._masks.share
        return spread(share, 0, tensor.numel()).reshape(tensor.shape).to(tensor.dtype)

    def by(self, tensor: torch.Tensor) -> str:
        """Return what it rests on what a mask keeps, as Size.by; "" if it is certain, or if the tensor is no mask."""
        tag = self.of(tensor)
        if isinstance(tag, Truth) and not tensor.is_floating_point():
            return "even" if 0 < tag.share < 1 else ""
        is_mask = isinstance(tag, Kept) or (tensor.dtype is torch.bool and self._is_part(tensor))
        return "masks" if is_mask else ""

    def keeps(self, tensor: torch.Tensor) -> bool | None:
        """Return whether a mask is taken to keep the only element of `tensor`, a view of it; None for no such view."""
        tag = self.of(tensor)
        if not self._is_part(tensor) or not (tensor.dtype is torch.bool or isinstance(tag, Kept)):
            return None
        share = tag.share if isinstance(tag, Truth) else self._masks.share
        return bool(spread(share, int(tensor.storage_offset()), 1))

    def _is_part(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor's storage has more than one element."""
        storage = self._ledger.of(tensor)
        return storage is not None and storage.nbytes > tensor.element_size()

    def spread(self, tensor: torch.Tensor) -> None:
        """Write even values to a router's choices (by_router) that the host is about to read; else do nothing."""
        tag = self.of(tensor)
        if isinstance(tag, Choice) and tag.by_router and not self._known.has(tensor):
            self._known.write(tensor, torch.arange(tensor.numel()) % tag.of + tag.low, ASSUMED)

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Follow an op that has run and returned `out`: tag its results and what it mutated, and write known counts."""
        name = func._schema.name.removeprefix("aten::")
        base = name.removesuffix("_")
        operands = list(tensors([*args, *kwargs.values()]))
        tagged = self._tags and any(self.of(operand) for operand in operands)
        answer = finite.always(name, args)
        if answer is not None:
            self._answer(out, answer)
        elif base == "_to_copy" and not tagged and is_integral(out) and args[0].dtype is torch.bool:
            if not self._known.has(args[0]):
                self._tag(out, Kept())
        elif self._masks.even and func._schema.name in BEGIN and not isinstance(self.of(args and args[0]), Kept):
            self._begin(name, func, args, kwargs, out)
        if base in _REDUCE and operands and not func._schema.is_mutable:
            self._reduce(base, operands[0], list(tensors(out)))
        if not tagged:
            return
        tag = self._derived(func, base, args, kwargs, out)
        if func._schema.is_mutable:
            named = effects.arguments(func, args, kwargs)
            for argument in effects.mutated(func, named):
                for tensor in tensors(named[argument]):
                    self._tag(tensor, tag if tensor is args[0] else None)
        elif tag is not None:
            for tensor in tensors(out):
                self._tag(tensor, tag)

    def _answer(self, out: torch.Tensor, answer: bool) -> None:
        """Note the answer to a test for finite data: one is written to the device's memory, many get a tag."""
        if out.is_cuda and not self._known.has(out) and out.numel() == 1:
            self._known.write(out, torch.full(out.shape, answer), FINITE)
        elif out.is_cuda and not self._known.has(out):
            self._tag(out, Truth(float(answer)))

    def _begin(self, name: str, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        named = effects.arguments(func, args, kwargs)
        if name == "multinomial":
            self._tag(out, Choice(args[0].shape[-1]))
        elif name == "randperm":
            self._tag(out, Choice(named["n"]))
        elif name == "randint":
            low = named.get("low", 0)
            self._tag(out, Choice(named["high"] - low, low))
        elif name in _ALONG and ("dim" in named or name in ("argmax", "argmin")):
            results, x, dim = list(tensors(out)), args[0], named.get("dim")
            if x.dim() and len(results) > _ALONG[name]:
                of = x.numel() if dim is None else x.shape[dim]
                self._tag(results[_ALONG[name]], Choice(of, by_router=name == "topk"))

    def _derived(self, func: Any, base: str, args: Any, kwargs: dict[str, Any], out: Any) -> Tag | None:
        """Return what is known of an op's result, as something is known of its operands."""
        first = self.of(args[0]) if args else None
        if base in _COPIES:
            source = self.of(args[1]) if base == "copy" else first
            if isinstance(source, Kept):
                return source if is_integral(out) else None
            to_truth = isinstance(source, Choice) and next(tensors(out), None) is not None
            if to_truth and next(tensors(out)).dtype is torch.bool:
                return Truth(self.share(args[0]) or 0.0)
            return source
        if base == "cat":
            tags = {self.of(tensor) for tensor in args[0]}
            if Kept() in tags:
                return self._cat(args, out) if all(self._is_mask(tensor) for tensor in args[0]) else None
            return tags.pop() if len(tags) == 1 else None
        if base in _COMPARE:
            return self._compared(base, args[0], args[1])
        if base in ("bitwise_not", "logical_not") and isinstance(first, Truth):
            return Truth(1 - first.share)
        if base in ("bitwise_and", "logical_and", "mul", "bitwise_or", "logical_or"):
            return self._joined(base, args)
        if base == "rsub" and isinstance(first, Kept) and args[1:] == (1,):
            return first
        if func.overloadpacket in _PUTS:
            return put(args[0], args[1], args[2], self.of(args[2]))
        if isinstance(first, Choice) and len(args) > 1 and isinstance(args[1], int):
            return moved(base, first, args[1], kwargs)
        return None

    def _compared(self, base: str, one: Any, other: Any) -> Tag | None:
        tag = self.of(one) or self.of(other)
        if isinstance(tag, Choice):
            if isinstance(other, torch.Tensor):
                equal = 1 / tag.of
                return {"eq": Truth(equal), "ne": Truth(1 - equal)}.get(base)
            at = (math.floor(other) - tag.low) / tag.of
            equal = 1 / tag.of if 0 <= at < 1 and other == math.floor(other) else 0.0
            below = min(max(at, 0.0), 1.0)
            share = {
                "eq": equal,
                "ne": 1 - equal,
                "lt": below,
                "le": below + equal,
                "gt": 1 - below - equal,
                "ge": 1 - below,
            }[base]
            return Truth(min(max(share, 0.0), 1.0))
        if isinstance(tag, Truth) and not isinstance(other, torch.Tensor):
            if (base, other) in (("eq", 1), ("ne", 0), ("gt", 0)):
                return tag
            if (base, other) in (("eq", 0), ("ne", 1)):
                return Truth(1 - tag.share)
        return None

    def _joined(self, base: str, args: Any) -> Tag | None:
        """Return the share of a conjunction or disjunction, with the unknown as true as it can be."""
        given = [self.of(arg) for arg in args if isinstance(arg, torch.Tensor)]
        shares = [tag.share for tag in given if isinstance(tag, Truth)]
        if not shares:
            masks = [arg for arg in args if isinstance(arg, torch.Tensor)]
            return Kept() if len(masks) > 1 and all(map(self._is_mask, masks)) else None
        if not base.endswith("_or") and min(shares) == 1 and len(shares) < len(given):
            return None  # as unknown as the other
        if base.endswith("_or"):
            return Truth(min(1.0, sum(shares))) if len(shares) == len(given) else None
        return Truth(min(shares))

    def _cat(self, args: Any, out: torch.Tensor) -> Tag | None:
        """Return what is known of masks side by side; where some of them are known, write all of them."""
        if not any(self._known.has(tensor) for tensor in args[0]):
            return Kept()
        parts = [on_host(tensor) if self._known.has(tensor) else self.kept(tensor) for tensor in args[0]]
        self._known.write(out, torch.cat([part for part in parts if part is not None], *args[1:]), ASSUMED | MASKED)
        return None

    def _is_mask(self, tensor: torch.Tensor) -> bool:
        """Return whether integers or truth values are 0 or 1 each."""
        if tensor.dtype is torch.bool or isinstance(self.of(tensor), Kept):
            return True
        return is_integral(tensor) and self._known.has(tensor) and bool((on_host(tensor) >> 1 == 0).all())

    def _reduce(self, base: str, x: torch.Tensor, results: list[torch.Tensor]) -> None:
        tag = self.of(x)
        if len(results) != 1 or self._known.has(x) or not x.numel():
            return
        result = results[0]
        if isinstance(tag, Kept) and base in ("max", "argmax"):
            self._last(base, x, result)
            return
        if base in ("bincount", "histc"):
            if isinstance(tag, Choice) and result.numel() >= tag.of:
                self._known.write(result, even(x.numel(), tag.of, result.numel()), ASSUMED)
            return
        if base in ("max", "min", "argmax"):
            if base != "argmax" and isinstance(tag, Choice) and result.dim() == 0:
                self._known.write(result, torch.tensor(tag.low + (tag.of - 1) * (base == "max")), ASSUMED)
            return
        share, rests_on = self.share(x) if tag is not None else None, ASSUMED
        is_mask = x.dtype is torch.bool or isinstance(tag, Kept)
        if share is None and is_mask and self._masks.share > 0 and base != "all" and not looks_for_zeros():
            share, rests_on = self._masks.share, ASSUMED | MASKED
        if share is None:
            return
        if base in ("any", "all"):
            self._any_or_all(base, x, share, result, certain=tag is not None and tag != Kept())
        elif not result.is_floating_point():
            n = result.numel()
            self._known.write(result, even(round(share * x.numel()), n, n), rests_on)

    def _last(self, base: str, x: torch.Tensor, result: torch.Tensor) -> None:
        """Write the largest of what an unknown mask keeps, or where argmax finds it: where its share ends."""
        if self._masks.share > 0 and result.numel():
            at = math.ceil(self._masks.share * x.numel() / result.numel()) - 1
            value = torch.full(result.shape, at if base == "argmax" else 1)
            self._known.write(result, value, ASSUMED | MASKED)

    def _any_or_all(self, base: str, x: torch.Tensor, share: float, result: torch.Tensor, *, certain: bool) -> None:
        if certain and result.dim():
            self._tag(result, Truth(min(1.0, share * x.numel() / result.numel()) if base == "any" else share))
        elif certain:
            value = share * x.numel() >= result.numel() if base == "any" else share == 1
            self._known.write(result, torch.full(result.shape, value), ASSUMED)
        elif result.dim() == 0:
            storage = self._ledger.of(result)
            if storage is not None:
                self._maybe.add(storage)

    def _tag(self, tensor: torch.Tensor, tag: Tag | None) -> None:
        storage = self._ledger.of(tensor)
        if storage is None:
            return
        if tag is not None:
            self._tags[storage] = tag
            self._ledger.set_known(tensor, known=True)
        else:
            self._tags.pop(storage, None)
