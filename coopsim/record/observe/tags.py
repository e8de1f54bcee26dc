"""What may be known of a tensor whose values no kernel has computed, its tag, and values that agree with it."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from coopsim.record.observe.torch_private import current_autograd_node


@dataclass(frozen=True)
class Choice:
    """The tag of indices: each value is one of the `of` integers from `low` on, each of which occurs equally often.

    by_router: chosen by topk, as routers of mixtures of experts do.
    """

    of: int
    low: int = 0
    by_router: bool = False


@dataclass(frozen=True)
class Truth:
    """The tag of masks: `share` (0 to 1) of the values is true, or not zero."""

    share: float


@dataclass(frozen=True)
class Kept:
    """The tag of integers, each 0 or 1, that were made from a mask of which nothing is known."""


Tag = Choice | Truth | Kept


def moved(base: str, tag: Choice, by: int, kwargs: dict[str, Any]) -> Tag | None:
    """Return the tag of choices after the op `base` ("add", "remainder", …) with the number `by`; None: it has none.

    Known are add, sub, floor_divide, div with rounding, remainder and fmod.
    """
    if base in ("add", "sub"):
        return replace(tag, low=tag.low + (by if base == "add" else -by))
    if tag.low or by <= 0:
        return None
    if base == "floor_divide" or (base == "div" and kwargs.get("rounding_mode")):
        return replace(tag, of=-(-tag.of // by))
    if base in ("remainder", "fmod"):
        return replace(tag, of=min(tag.of, by))
    return None


def put(into: torch.Tensor, dim: int, index: torch.Tensor, tag: Tag | None) -> Tag | None:
    """Return the tag of zeros into which values are put along `dim` at indices with a tag; None: it has none."""
    if not isinstance(tag, Choice) or not into.dim():
        return None
    rows = into.numel() // into.shape[dim]
    return Truth(min(1.0, index.numel() / rows / tag.of)) if rows else None


def is_integral(tensor: Any) -> bool:
    """Return whether it is a tensor of integers on the GPU; False for truth values."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda or tensor.dtype is torch.bool:
        return False
    return not tensor.is_floating_point() and not tensor.is_complex()


def looks_for_zeros() -> bool:
    """Return whether it is the formula of prod's gradient that asks, where its input is zero: hardly ever."""
    node = current_autograd_node()
    return node is not None and node.name().startswith("ProdBackward")


def spread(share: float, start: int, n: int) -> torch.Tensor:
    """Return the values from number `start` to `start + n - 1` of a row of truth values, of which a share is true.

    The true ones are spread evenly, and number 0 is one, unless the share is 0.
    """
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
