"""Inception V3 with its auxiliary classifier, as torchvision has it."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 299
PARAMETERS = 27_161_264  # torchvision's inception_v3, the auxiliary classifier included


def network() -> Any:
    """Make the network. Parts are named after the paper's figures 5 to 7; sizes are those of the released network."""
    import torch
    from torch import nn

    from coopsim.record.capture.models._inception import Branches, chain, fork, pooled
    from coopsim.record.capture.models._step import CLASSES

    row, column = (1, 7), (7, 1)

    def figure_5(inputs: int, pool: int) -> nn.Module:
        return Branches(
            [
                chain(inputs, (64, 1)),
                chain(inputs, (48, 1), (64, 5)),
                chain(inputs, (64, 1), (96, 3), (96, 3)),
                pooled(inputs, pool, count_padding=True),
            ]
        )

    def figure_6(inner: int) -> nn.Module:
        return Branches(
            [
                chain(768, (192, 1)),
                chain(768, (inner, 1), (inner, row), (192, column)),
                chain(768, (inner, 1), (inner, column), (inner, row), (inner, column), (192, row)),
                pooled(768, 192, count_padding=True),
            ]
        )

    def figure_7(inputs: int) -> nn.Module:
        return Branches(
            [
                chain(inputs, (320, 1)),
                fork(inputs, 384, (384, 1)),
                fork(inputs, 384, (448, 1), (384, 3)),
                pooled(inputs, 192, count_padding=True),
            ]
        )

    class InceptionV3(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                chain(3, (32, 3, 2), (32, 3, 1), (64, 3)),
                nn.MaxPool2d(3, 2),
                chain(64, (80, 1), (192, 3, 1)),
                nn.MaxPool2d(3, 2),
                figure_5(192, 32),
                figure_5(256, 64),
                figure_5(288, 64),
                Branches([chain(288, (384, 3, 2)), chain(288, (64, 1), (96, 3), (96, 3, 2)), nn.MaxPool2d(3, 2)]),
                *map(figure_6, (128, 160, 160, 192)),
            )
            self.auxiliary = nn.Sequential(
                nn.AvgPool2d(5, 3),
                chain(768, (128, 1), (768, 5, 1)),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(768, CLASSES),
            )
            self.head = nn.Sequential(
                Branches(
                    [
                        chain(768, (192, 1), (320, 3, 2)),
                        chain(768, (192, 1), (192, row), (192, column), (192, 3, 2)),
                        nn.MaxPool2d(3, 2),
                    ]
                ),
                figure_7(1280),
                figure_7(2048),
                nn.AdaptiveAvgPool2d(1),
                nn.Dropout(0.5),
                nn.Flatten(),
                nn.Linear(2048, CLASSES),
            )

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.body(x)
            auxiliary = self.auxiliary(x)
            return self.head(x), auxiliary

    return InceptionV3()


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` images. The auxiliary classifier's loss has weight 0.4."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="inception-v3",
    title="Inception V3 with auxiliary classifier, 299x299 images",
    batch=96,
    source="Szegedy et al. 2016 (model); batch 96 and SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": 0.5},
)
