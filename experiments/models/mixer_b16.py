"""MLP-Mixer B/16: perceptrons that mix patches, and perceptrons that mix channels, in turn."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS, PATCH = 224, 16
WIDTH, LAYERS, PLACES, CHANNELS = 768, 12, 384, 3072  # the last two: hidden units of the two kinds of perceptrons
PARAMETERS = 59_880_472  # timm's mixer_b16_224


def network() -> Any:
    """Norms first; a mean over all patches and a linear classifier at the end."""
    import torch
    from torch import nn

    from coopsim.record.capture.models._step import CLASSES

    def perceptron(width: int, hidden: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.places = perceptron((PIXELS // PATCH) ** 2, PLACES)
            self.channels = perceptron(WIDTH, CHANNELS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.places(self.before(x).transpose(1, 2)).transpose(1, 2)
            y: torch.Tensor = x + self.channels(self.after(x))
            return y

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.classify = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layers(self.patches(x).flatten(2).transpose(1, 2))
            logits: torch.Tensor = self.classify(self.norm(x).mean(1))
            return logits

    return Mixer()


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images of 14x14 patches."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="mixer-b16",
    title="MLP-Mixer B/16, 224x224 images",
    batch=128,
    source="Tolstikhin et al. 2021 (model, without dropout or stochastic depth); batch ours, "
    "SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS},
)
step = MODEL.step
