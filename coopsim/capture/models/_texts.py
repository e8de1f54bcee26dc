"""What the language models share. Imports torch: only a model's `build` may import it."""

from collections.abc import Callable

import torch
from torch import nn

from coopsim.capture.models._model import Setting
from coopsim.capture.models._step import check_parameters, training_step


def build_language_model(
    setting: Setting, network: Callable[[], nn.Module], parameters: int, length: int
) -> Callable[[], None]:
    """One step on `batch` texts of `length` tokens, which are their own labels, with transformers' own loss.

    `network` makes the model, which must have as many `parameters` and is put into train mode.
    """
    with torch.device("cuda"):
        model = network().train()
        tokens = torch.ones(setting.batch, length, dtype=torch.long)
    check_parameters(model, parameters)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=tokens).loss)
