"""DenseNet-121: every layer reads the joined outputs of all layers before it in its block."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
GROWTH = 32
BLOCKS = (6, 12, 24, 16)
PARAMETERS = 7_978_856  # torchvision's densenet121


def network() -> Any:
    """Four dense blocks, and between them transitions that halve channels and sides."""
    import torch
    from torch import nn

    from coopsim.record.capture.models._step import CLASSES

    def convolve(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
        return [
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
        ]

    class Block(nn.ModuleList):
        def __init__(self, inputs: int, layers: int) -> None:
            super().__init__(
                nn.Sequential(*convolve(inputs + i * GROWTH, 4 * GROWTH, 1), *convolve(4 * GROWTH, GROWTH, 3))
                for i in range(layers)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = [x]
            for layer in self:
                features.append(layer(torch.cat(features, 1)))
            return torch.cat(features, 1)

    channels = 2 * GROWTH
    layers = [
        nn.Conv2d(3, channels, 7, 2, 3, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    for i, size in enumerate(BLOCKS):
        if i:
            layers += [*convolve(channels, channels // 2, 1), nn.AvgPool2d(2, 2)]
            channels //= 2
        layers.append(Block(channels, size))
        channels += size * GROWTH
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, CLASSES))


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="densenet-121",
    title="DenseNet-121, 224x224 images",
    batch=70,
    source="Huang et al. 2017 (model); batch 70 and SGD as in Coop's first experiments (2022)",
    build=build,
    details={"pixels": PIXELS},
)
step = MODEL.step
