"""Build language models. Imports torch, so that only a model's `build` may import it."""

from collections.abc import Callable

import torch
from torch import nn

from coopsim.record.capture.models._model import Setting
from coopsim.record.capture.models._step import check_parameters, training_step


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
