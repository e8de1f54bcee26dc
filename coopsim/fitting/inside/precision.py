"""Compute in bfloat16: forward passes, or weights and all that follows from them."""

from typing import Any

import torch
from torch import nn

from coopsim.fitting.inside.models import Models


def autocast(models: Models, numbers: tuple[int, ...]) -> None:
    """From now on, autocast the forward passes of the models with these numbers, () for all, to bfloat16.

    The effect is that of `model.forward = torch.autocast("cuda", dtype=torch.bfloat16)(model.forward)`.
    """
    contexts: list[Any] = []

    def around(model: nn.Module, enters: bool) -> None:
        if numbers and models.number(model) not in numbers:
            return
        if enters:
            contexts.append(torch.autocast("cuda", dtype=torch.bfloat16))
            contexts[-1].__enter__()
        else:
            contexts.pop().__exit__(None, None, None)

    models.around.append(around)


def convert(models: Models, numbers: tuple[int, ...]) -> None:
    """Convert models to bfloat16 at their first call, and from then on the floating-point inputs of their calls.

    numbers: those of the models to convert; () for all.
    """

    def first(number: int, model: nn.Module) -> None:
        if not numbers or number in numbers:
            model.to(torch.bfloat16)

    def inputs(number: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(_half, args)) if not numbers or number in numbers else args

    models.on_first_call.append(first)
    models.inputs.append(inputs)


def _half(value: Any) -> Any:
    return value.bfloat16() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
