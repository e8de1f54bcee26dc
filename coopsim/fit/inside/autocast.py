"""Forward passes in bfloat16."""

from typing import Any

import torch
from torch import nn

from coopsim.fit.inside.models import Models


def install(models: Models) -> None:
    """As `model.forward = torch.autocast("cuda", dtype=torch.bfloat16)(model.forward)` does, of every model."""
    contexts: list[Any] = []

    def around(_: nn.Module, enters: bool) -> None:
        if enters:
            contexts.append(torch.autocast("cuda", dtype=torch.bfloat16))
            contexts[-1].__enter__()
        else:
            contexts.pop().__exit__(None, None, None)

    models.around.append(around)
