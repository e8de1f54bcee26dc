"""Turn weights to bfloat16."""

from typing import Any

import torch
from torch import nn

from coopsim.fit.inside.models import Models


def install(models: Models, numbers: tuple[int, ...]) -> None:
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
