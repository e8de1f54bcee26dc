"""The training step of all reference models. Imports torch, so that only a model's `build` may import it."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

from coopsim.record.capture.models._model import Setting


def training_step(setting: Setting, model: nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Make the optimizer, and return a step: `loss` (autocast if chosen), backward, optimizer, clearing gradients."""
    kind: type[torch.optim.Optimizer] = getattr(torch.optim, setting.optimizer)
    optimizer = kind(model.parameters(), **setting.options)
    precision = {"bf16": torch.bfloat16}

    def forward() -> torch.Tensor:
        with torch.autocast("cuda", precision[setting.amp]) if setting.amp else nullcontext():
            return loss()

    def step() -> None:
        forward().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=setting.gradients == "dropped")

    return step


def check_parameters(model: nn.Module, published: int) -> None:
    """Raise AssertionError unless the model has as many parameters as published, as in another release of a library."""
    found = sum(p.numel() for p in model.parameters())
    if found != published:
        raise AssertionError(f"{type(model).__name__} has {found} parameters, not {published}")


def in_place(model: nn.Module) -> nn.Module:
    """Let every ReLU overwrite its input, as torchvision's and flowvision's models do."""
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True
    return model
