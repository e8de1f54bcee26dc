"""What may be known of a tensor whose values no kernel has computed, and values that agree with it."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from coopsim.observe.torch_private import current_autograd_node


@dataclass(frozen=True)
class Choice:
    """Each value is one of `of` from `low` on. by_router: chosen by topk, as routers do."""

    of: int
    low: int = 0
    by_router: bool = False


@dataclass(frozen=True)
class Truth:
    """That share of the values is true, or not zero."""

    share: float


@dataclass(frozen=True)
class Kept:
    """Integers, each of them 0 or 1, that say what a mask keeps of which nothing is known."""


Tag = Choice | Truth | Kept


def moved(base: str, tag: Choice, by: int, kwargs: dict[str, Any]) -> Tag | None:
    """Return what is known of choices after an op with a number, such as `remainder`; None: nothing any more."""
    if base in ("add", "sub"):
        return replace(tag, low=tag.low + (by if base == "add" else -by))
    if tag.low or by <= 0:
        return None
    if base == "floor_divide" or (base == "div" and kwargs.get("rounding_mode")):
        return replace(tag, of=-(-tag.of // by))
    if base in ("remainder", "fmod"):
        return replace(tag, of=min(tag.of, by))
    return None


def is_integral(tensor: Any) -> bool:
    """Return whether it is a tensor of integers on the device."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda or tensor.dtype is torch.bool:
        return False
    return not tensor.is_floating_point() and not tensor.is_complex()


def looks_for_zeros() -> bool:
    """Return whether it is the formula of prod's gradient that asks, where its input is zero: hardly ever."""
    node = current_autograd_node()
    return node is not None and node.name().startswith("ProdBackward")


def spread(share: float, start: int, n: int) -> torch.Tensor:
    """Return `n` truth values from number `start` on, of which that share is true, evenly, the first of all first."""
    if share in (0, 1):
        return torch.full((n,), bool(share))
    counts = torch.ceil(torch.arange(start, start + n + 1, dtype=torch.float64) * share - 1e-9)
    return counts.diff() > 0


def even(total: int, over: int, size: int) -> torch.Tensor:
    """Return `size` counts, the first `over` of which are as even as their total allows, and the others 0."""
    counts = torch.zeros(size, dtype=torch.long)
    counts[:over] = total // over
    counts[: total % over] += 1
    return counts
