"""Build image classifiers. Imports torch, so that only a model's `build` may import it."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from coopsim.record.capture.models._model import Setting
from coopsim.record.capture.models._step import check_parameters, training_step

CLASSES = 1000


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
