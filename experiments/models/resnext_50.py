"""ResNeXt-50 32x4d on ImageNet-sized images: bottlenecks whose 3x3 convolution is in 32 groups."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DEPTHS = (3, 4, 6, 3)
GROUPS, WIDTH = 32, 4  # the width is that of a group in the first stage
PARAMETERS = 25_028_904  # torchvision's resnext50_32x4d


def network() -> Any:
    """As ResNet-50, but with twice its channels within a bottleneck; the stride is in the 3x3 convolution."""
    import torch
    from torch import nn

    from coopsim.record.capture.models._step import CLASSES

    def convolve(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outputs)]

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, inner: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                *convolve(inputs, inner, 1),
                nn.ReLU(inplace=True),
                *convolve(inner, inner, 3, stride, GROUPS),
                nn.ReLU(inplace=True),
                *convolve(inner, outputs, 1),
            )
            self.shortcut = nn.Sequential(*convolve(inputs, outputs, 1, stride) if inputs != outputs else [])
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layers(x)
            y += self.shortcut(x)
            made: torch.Tensor = self.relu(y)
            return made

    channels = 64
    layers = [*convolve(3, channels, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for stage, depth in enumerate(DEPTHS):
        inner = GROUPS * WIDTH * 2**stage
        for block in range(depth):
            layers.append(Bottleneck(channels, inner, 2 * inner, 2 if stage and not block else 1))
            channels = 2 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="resnext-50",
    title="ResNeXt-50 32x4d, 224x224 images",
    batch=64,
    source="Xie et al. 2017, as torchvision (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS},
)
step = MODEL.step
