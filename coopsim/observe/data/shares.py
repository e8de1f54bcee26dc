"""How often values occur that no kernel has computed: what a router chooses, and masks that are made of that.

An index that `topk`, `argmax`, `multinomial` and the like give is one of so many, each as often as any other. So a
comparison with one of them is true for its share, and so is a column of a one-hot mask, or of what `scatter_` makes.
Sums and `bincount` of these are counts, which are written to the device's memory, as even as they can be.
"""

import math
import weakref
from dataclasses import dataclass, replace
from typing import Any

import torch

from coopsim.observe import effects
from coopsim.observe.data.known import ASSUMED, Known
from coopsim.observe.data.masks import Masks
from coopsim.observe.effects import tensors
from coopsim.observe.native import NativeLedger
from coopsim.observe.storages import Ledger, Storage
from coopsim.phantom.control import Control


@dataclass(frozen=True)
class Choice:
    """The tag of indices: each value is one of the `of` integers from `low` on, and each of these occurs equally often.

    by_router: chosen by topk, as routers of mixtures of experts do.
    """

    of: int
    low: int = 0
    by_router: bool = False


@dataclass(frozen=True)
class Truth:
    """The tag of masks: `share` (0 to 1) of the values is true, or not zero."""

    share: float


Tag = Choice | Truth

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
_NEVER = ("isnan", "isinf")  #: true of no data of a run that is well
_COPIES = frozenset(
    ("_to_copy", "clone", "index", "index_select", "repeat", "flip", "roll", "copy", "gather", "take", "view_copy")
)
_PUTS = (torch.ops.aten.scatter, torch.ops.aten.scatter_)
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_REDUCE = frozenset(("sum", "count_nonzero", "any", "all", "max", "min", "bincount", "histc"))
BEGIN = frozenset(f"aten::{name}" for name in (*_ALONG, *_NEVER, "multinomial", "randint", "randperm", "any"))


class Shares:
    """Follows a program's ops, and keeps a tag (Choice or Truth) of each storage of which one is known.

    A storage keeps it until an op changes the storage in a way that is not understood.
    """

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
        """Return the share (0 to 1) of a tensor's elements that are not zero, by its tag; None if it has no tag."""
        match self.of(tensor):
            case Truth(share):
                return share
            case Choice(of, low):
                return 1 - 1 / of if low <= 0 < low + of else 1.0
        return None

    def spread(self, tensor: torch.Tensor) -> None:
        """Write even values to a tensor that the host is about to read, if it is a router's choices (by_router).

        Does nothing for any other tensor, and where the values are known already.
        """
        tag = self.of(tensor)
        if isinstance(tag, Choice) and tag.by_router and not self._known.has(tensor):
            self._known.write(tensor, torch.arange(tensor.numel()) % tag.of + tag.low, ASSUMED)

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Follow an op that has run and returned `out`: tag its results and what it mutated, and write known counts."""
        name = func._schema.name.removeprefix("aten::")
        base = name.removesuffix("_")
        operands = list(tensors([*args, *kwargs.values()]))
        tagged = self._tags and any(self.of(operand) for operand in operands)
        if self._masks.even and func._schema.name in BEGIN:
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
                    self._set(tensor, tag if tensor is args[0] else None)
        elif tag is not None:
            for tensor in tensors(out):
                self._set(tensor, tag)

    def _begin(self, name: str, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        named = effects.arguments(func, args, kwargs)
        if name in _NEVER:
            self._set(out, Truth(0.0))
        elif name == "multinomial":
            self._set(out, Choice(args[0].shape[-1]))
        elif name == "randperm":
            self._set(out, Choice(named["n"]))
        elif name == "randint":
            low = named.get("low", 0)
            self._set(out, Choice(named["high"] - low, low))
        elif name in _ALONG and ("dim" in named or name in ("argmax", "argmin")):
            results, x, dim = list(tensors(out)), args[0], named.get("dim")
            if x.dim() and len(results) > _ALONG[name]:
                of = x.numel() if dim is None else x.shape[dim]
                self._set(results[_ALONG[name]], Choice(of, by_router=name == "topk"))

    def _derived(self, func: Any, base: str, args: Any, kwargs: dict[str, Any], out: Any) -> Tag | None:
        """Return what is known of an op's result, as something is known of its operands."""
        first = self.of(args[0]) if args else None
        if base in _COPIES:
            source = self.of(args[1]) if base == "copy" else first
            to_truth = isinstance(source, Choice) and next(tensors(out), None) is not None
            if to_truth and next(tensors(out)).dtype is torch.bool:
                return Truth(self.share(args[0]) or 0.0)
            return source
        if base == "cat":
            tags = {self.of(tensor) for tensor in args[0]}
            return tags.pop() if len(tags) == 1 else None
        if base in _COMPARE:
            return self._compared(base, args[0], args[1])
        if base in ("bitwise_not", "logical_not") and isinstance(first, Truth):
            return Truth(1 - first.share)
        if base in ("bitwise_and", "logical_and", "mul", "bitwise_or", "logical_or"):
            return self._joined(base, args)
        if func.overloadpacket in _PUTS:
            return self._put(args)
        if isinstance(first, Choice) and len(args) > 1 and isinstance(args[1], int):
            return _moved(base, first, args[1], kwargs)
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
            return None
        if base.endswith("_or"):
            return Truth(min(1.0, sum(shares))) if len(shares) == len(given) else None
        return Truth(min(shares))

    def _put(self, args: Any) -> Tag | None:
        into, dim, index = args[:3]
        tag = self.of(index)
        if not isinstance(tag, Choice) or not into.dim():
            return None
        rows = into.numel() // into.shape[dim]
        return Truth(min(1.0, index.numel() / rows / tag.of)) if rows else None

    def _reduce(self, base: str, x: torch.Tensor, results: list[torch.Tensor]) -> None:
        tag = self.of(x)
        if len(results) != 1 or self._known.has(x) or not x.numel():
            return
        result = results[0]
        if base in ("bincount", "histc"):
            if isinstance(tag, Choice) and result.numel() >= tag.of:
                self._known.write(result, _even(x.numel(), tag.of, result.numel()), ASSUMED)
            return
        if base in ("max", "min"):
            if isinstance(tag, Choice) and result.dim() == 0:
                self._known.write(result, torch.tensor(tag.low + (tag.of - 1) * (base == "max")), ASSUMED)
            return
        share = self.share(x) if tag is not None else None
        if share is None and x.dtype is torch.bool and self._masks.share > 0 and base != "all":
            share = self._masks.share
        if share is None:
            return
        if base in ("any", "all"):
            self._any_or_all(base, x, share, result, certain=tag is not None)
        elif not result.is_floating_point():
            n = result.numel()
            self._known.write(result, _even(round(share * x.numel()), n, n), ASSUMED)

    def _any_or_all(self, base: str, x: torch.Tensor, share: float, result: torch.Tensor, *, certain: bool) -> None:
        if certain and result.dim():
            self._set(result, Truth(min(1.0, share * x.numel() / result.numel()) if base == "any" else share))
        elif certain:
            value = share * x.numel() >= result.numel() if base == "any" else share == 1
            self._known.write(result, torch.full(result.shape, value), ASSUMED)
        elif result.dim() == 0:
            storage = self._ledger.of(result)
            if storage is not None:
                self._maybe.add(storage)

    def _set(self, tensor: torch.Tensor, tag: Tag | None) -> None:
        storage = self._ledger.of(tensor)
        if storage is None:
            return
        if tag is not None:
            self._tags[storage] = tag
            self._ledger.set_known(tensor, known=True)
        else:
            self._tags.pop(storage, None)


def _moved(base: str, tag: Choice, by: int, kwargs: dict[str, Any]) -> Tag | None:
    if base in ("add", "sub"):
        return replace(tag, low=tag.low + (by if base == "add" else -by))
    if tag.low or by <= 0:
        return None
    if base == "floor_divide" or (base == "div" and kwargs.get("rounding_mode")):
        return replace(tag, of=-(-tag.of // by))
    if base in ("remainder", "fmod"):
        return replace(tag, of=min(tag.of, by))
    return None


def _even(total: int, over: int, size: int) -> torch.Tensor:
    """Return `size` counts, the first `over` of which are as even as their total allows, and the others 0."""
    counts = torch.zeros(size, dtype=torch.long)
    counts[:over] = total // over
    counts[: total % over] += 1
    return counts
