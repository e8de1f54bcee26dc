"""Inception V4, as its paper's figures 3 to 9 and table 1 have it."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 299
PARAMETERS = 42_679_816  # timm's inception_v4


def network() -> Any:
    """Four blocks of 35x35, seven of 17x17, three of 8x8, and reductions between them."""
    from torch import nn

    from coopsim.record.capture.models._inception import Branches, chain, fork, pooled
    from coopsim.record.capture.models._step import CLASSES

    row, column = (1, 7), (7, 1)

    def block_35() -> nn.Module:
        return Branches(
            [
                chain(384, (96, 1)),
                chain(384, (64, 1), (96, 3)),
                chain(384, (64, 1), (96, 3), (96, 3)),
                pooled(384, 96, count_padding=False),
            ]
        )

    def block_17() -> nn.Module:
        return Branches(
            [
                chain(1024, (384, 1)),
                chain(1024, (192, 1), (224, row), (256, column)),
                chain(1024, (192, 1), (192, column), (224, row), (224, column), (256, row)),
                pooled(1024, 128, count_padding=False),
            ]
        )

    def block_8() -> nn.Module:
        return Branches(
            [
                chain(1536, (256, 1)),
                fork(1536, 256, (384, 1)),
                fork(1536, 256, (384, 1), (448, (3, 1)), (512, (1, 3))),
                pooled(1536, 256, count_padding=False),
            ]
        )

    return nn.Sequential(
        chain(3, (32, 3, 2), (32, 3, 1), (64, 3)),
        Branches([nn.MaxPool2d(3, 2), chain(64, (96, 3, 2))]),
        Branches([chain(160, (64, 1), (96, 3, 1)), chain(160, (64, 1), (64, row), (64, column), (96, 3, 1))]),
        Branches([chain(192, (192, 3, 2)), nn.MaxPool2d(3, 2)]),
        *(block_35() for _ in range(4)),
        Branches([chain(384, (384, 3, 2)), chain(384, (192, 1), (224, 3), (256, 3, 2)), nn.MaxPool2d(3, 2)]),
        *(block_17() for _ in range(7)),
        Branches(
            [
                chain(1024, (192, 1), (192, 3, 2)),
                chain(1024, (256, 1), (256, row), (320, column), (320, 3, 2)),
                nn.MaxPool2d(3, 2),
            ]
        ),
        *(block_8() for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1536, CLASSES),
    )


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="inception-v4",
    title="Inception V4, 299x299 images",
    batch=96,
    source="Szegedy et al. 2017 (model); batch 96 and SGD as Coop (NeurIPS 2023) has for Inception V3",
    build=build,
    details={"pixels": PIXELS, "dropout": 0.2},
)
step = MODEL.step
