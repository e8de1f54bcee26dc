"""Accumulate the gradients of several batches before the optimizer steps."""

import torch
from torch import nn

from coopsim.fit.changes import Changes
from coopsim.script.running import dividing


def install(changes: Changes) -> None:
    """From now on, skip calls of zero_grad and Optimizer.step: an optimizer steps once per `changes.accumulate` calls.

    With `changes.hold_gradients`, gradients are never cleared, but the optimizer steps at every call.
    """
    if changes.hold_gradients:
        for owner in (torch.optim.Optimizer, nn.Module):
            dividing.conditional(owner, "zero_grad", lambda _: False)
        return
    dividing.skip_steps(lambda _, call: call % changes.accumulate == 0)
