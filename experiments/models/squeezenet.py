"""SqueezeNet 1.1, as torchvision has it: layers that squeeze the channels and widen them again, without any norm."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
FIRES = (((16, 128), (16, 128)), ((32, 256), (32, 256)), ((48, 384), (48, 384), (64, 512), (64, 512)))  # of each stage
DROPOUT = 0.5
PARAMETERS = 1_235_496  # torchvision's squeezenet1_1


def network() -> Any:
    """A stage is a pooling and its fires: channels when squeezed, and when widened, half of them by 3x3."""
    from torch import nn

    from coopsim.record.capture.models._inception import Branches
    from coopsim.record.capture.models._step import CLASSES

    def convolve(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU(inplace=True))

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(inplace=True)]
    inputs = 64
    for stage in FIRES:
        layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        for squeezed, widened in stage:
            layers.append(convolve(inputs, squeezed, 1))
            layers.append(Branches(convolve(squeezed, widened // 2, kernel) for kernel in (1, 3)))
            inputs = widened
    # the classifier is a convolution, too; its average comes last
    layers += [nn.Dropout(DROPOUT), *convolve(inputs, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="squeezenet",
    title="SqueezeNet 1.1, 224x224 images",
    batch=256,
    source="Iandola et al. 2016, release 1.1, as torchvision (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
