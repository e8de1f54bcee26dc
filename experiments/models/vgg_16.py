"""VGG-16 with batch norm, as torchvision has it: nothing but convolutions of 3x3 in a row, and a wide classifier."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
WIDTHS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and convolutions between two poolings
DROPOUT = 0.5
PARAMETERS = 138_365_992  # torchvision's vgg16_bn


def network() -> Any:
    """Configuration D of the paper. Its convolutions keep their bias beside the norm."""
    from torch import nn

    from coopsim.record.capture.models._step import CLASSES

    layers: list[nn.Module] = []
    inputs = 3
    for outputs, convolutions in WIDTHS:
        for _ in range(convolutions):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))

    def hidden(inputs: int) -> list[nn.Module]:
        return [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(DROPOUT)]

    # the average is over single points at this size; torchvision copies there, too
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten(), *hidden(7 * 7 * inputs), *hidden(4096), nn.Linear(4096, CLASSES)]
    return nn.Sequential(*layers)


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="vgg-16",
    title="VGG-16 with batch norm, 224x224 images",
    batch=128,
    source="Simonyan and Zisserman 2015 with batch norm, as torchvision (model); batch ours, "
    "SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
