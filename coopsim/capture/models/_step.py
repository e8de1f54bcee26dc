"""The training step that all reference models share. Imports torch: only a model's `build` may import it."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

from coopsim.capture.models._model import Setting


def training_step(setting: Setting, model: nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """One step: `loss` (under autocast, if it was chosen), backward, optimizer, gradients dropped or zeroed."""
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
    """The model must have as many parameters as the published one; another release of a library may differ."""
    found = sum(p.numel() for p in model.parameters())
    if found != published:
        raise AssertionError(f"{type(model).__name__} has {found} parameters, not {published}")


def in_place(model: nn.Module) -> nn.Module:
    """Let every ReLU overwrite its input, as torchvision's and flowvision's models do."""
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True
    return model
