"""The training step of all reference models, and those of classifiers and language models.

Imports torch, so that only a model's `build` may import it.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional

from coopsim.record.capture.models._model import Setting

CLASSES = 1000


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


def build_classifier(
    setting: Setting, network: Callable[[], nn.Module], parameters: int, pixels: int
) -> Callable[[], None]:
    """Build a classifier; a step trains on square images of ones, with label 1, as in the scripts of Coop's authors.

    `network` makes the model, which must have `parameters` parameters, and is put into train mode. It returns logits,
    an object with a field `logits`, or (logits, logits of an auxiliary head).
    """
    with torch.device("cuda"):
        model = network().train()
    check_parameters(model, parameters)
    images = torch.ones(setting.batch, 3, pixels, pixels, device="cuda")
    labels = torch.ones(setting.batch, dtype=torch.long, device="cuda")

    def loss() -> torch.Tensor:
        out = model(images)
        if isinstance(out, tuple):
            logits, auxiliary = out
            return functional.cross_entropy(logits, labels) + 0.4 * functional.cross_entropy(auxiliary, labels)
        return functional.cross_entropy(getattr(out, "logits", out), labels)

    return training_step(setting, model, loss)


def build_language_model(
    setting: Setting, network: Callable[[], nn.Module], parameters: int, length: int
) -> Callable[[], None]:
    """Build a language model; a step trains on `batch` texts of `length` tokens, which are their own labels.

    The loss is transformers' own. `network` makes the model, which must have `parameters` parameters, and is put into
    train mode.
    """
    with torch.device("cuda"):
        model = network().train()
        tokens = torch.ones(setting.batch, length, dtype=torch.long)
    check_parameters(model, parameters)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=tokens).loss)
