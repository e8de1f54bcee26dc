"""Optimizers that step, and clear gradients, only at some of their calls, as accumulated gradients need it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from coopsim.fitting.changes import Changes
from coopsim.record.observe.private import hooked


def accumulate(changes: Changes) -> None:
    """From now on, skip calls of zero_grad and Optimizer.step: an optimizer steps once per `changes.accumulate` calls.

    With `changes.hold_gradients`, gradients are never cleared, but the optimizer steps at every call.
    """
    if changes.hold_gradients:
        for owner in (torch.optim.Optimizer, nn.Module):
            conditional(owner, "zero_grad", lambda _: False)
        return
    skip_steps(lambda _, call: call % changes.accumulate == 0)


def skip_steps(steps: Callable[[torch.optim.Optimizer, int], bool]) -> None:
    """From now on, an optimizer steps only where `steps` says so, given the number of its call, counted from 1.

    Until it has stepped after a call that was skipped, its gradients are not cleared. To be called before optimizers
    are made.
    """
    due: dict[int, bool] = {}
    counts: dict[int, int] = {}

    def may_clear(owner: Any) -> bool:
        return all(due.values()) if isinstance(owner, nn.Module) else due.get(id(owner), True)

    for owner in (torch.optim.Optimizer, nn.Module):
        conditional(owner, "zero_grad", may_clear)
    original = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(step: Any) -> Any:
        def sometimes(profiled: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[id(self)] = counts.get(id(self), 0) + 1
            due[id(self)] = steps(self, counts[id(self)])
            return profiled(self, *args, **kwargs) if due[id(self)] else None

        return hooked(original(step), sometimes)

    torch.optim.Optimizer.profile_hook_step = staticmethod(profile_hook_step)  # type: ignore[assignment]


def conditional(owner: Any, name: str, condition: Callable[[Any], bool]) -> None:
    """From now on, calls of a method are skipped, and return None, where `condition` is not met by its object."""

    def sometimes(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if condition(self) else None

    setattr(owner, name, hooked(getattr(owner, name), sometimes))
