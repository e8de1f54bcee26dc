"""Accumulate the gradients of several batches before the optimizer steps."""

import functools
from typing import Any

import torch
from torch import nn

from coopsim.fit.changes import Changes


def install(changes: Changes) -> None:
    """From now on, skip calls of zero_grad and Optimizer.step: an optimizer steps once per `changes.accumulate` calls.

    With `changes.hold_gradients`, gradients are never cleared, but the optimizer steps at every call.
    """
    due: dict[int, bool] = {}
    counts: dict[int, int] = {}

    def may_clear(owner: Any) -> bool:
        if changes.hold_gradients:
            return False
        return all(due.values()) if isinstance(owner, nn.Module) else due.get(id(owner), True)

    for owner in (torch.optim.Optimizer, nn.Module):
        _conditional(owner, "zero_grad", may_clear)
    if changes.hold_gradients:
        return
    original = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(step: Any) -> Any:
        hooked = original(step)

        @functools.wraps(hooked)
        def sometimes(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[id(self)] = counts.get(id(self), 0) + 1
            due[id(self)] = counts[id(self)] % changes.accumulate == 0
            return hooked(self, *args, **kwargs) if due[id(self)] else None

        return sometimes

    torch.optim.Optimizer.profile_hook_step = staticmethod(profile_hook_step)  # type: ignore[assignment]


def _conditional(owner: Any, name: str, condition: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if condition(self) else None

    setattr(owner, name, replaced)
