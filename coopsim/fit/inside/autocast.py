"""Run forward passes in bfloat16."""

from typing import Any

import torch
from torch import nn

from coopsim.fit.inside.models import Models


def install(models: Models, numbers: tuple[int, ...]) -> None:
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
