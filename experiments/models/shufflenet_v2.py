"""ShuffleNetV2 x1.0: half of the channels pass by each block, and all are shuffled after it."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
STAGES = ((116, 4), (232, 8), (464, 4))  # channels and blocks
FIRST, LAST = 24, 1024  # channels before the stages and after them
PARAMETERS = 2_278_604  # torchvision's shufflenet_v2_x1_0


def network() -> Any:
    """The first block of a stage halves the sides, and has layers on both of its branches."""
    import torch
    from torch import nn

    from coopsim.record.capture.models._step import CLASSES

    def convolve(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    def depthwise(width: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width)]

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.halves = inputs != outputs
            width, stride = outputs // 2, 2 if self.halves else 1
            self.short = nn.Sequential(*depthwise(inputs, 2), *convolve(inputs, width, 1)) if self.halves else None
            start = convolve(inputs if self.halves else width, width, 1)
            self.long = nn.Sequential(*start, *depthwise(width, stride), *convolve(width, width, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.short is None:
                kept, x = x.chunk(2, dim=1)
            else:
                kept = self.short(x)
            joined = torch.cat((kept, self.long(x)), 1)
            batch, channels, height, width = joined.shape
            pairs = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
            return pairs.view(batch, channels, height, width)

    layers = [*convolve(3, FIRST, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = FIRST
    for outputs, blocks in STAGES:
        for _ in range(blocks):
            layers.append(Block(channels, outputs))
            channels = outputs
    layers += [*convolve(channels, LAST, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(LAST, CLASSES)]
    return nn.Sequential(*layers)


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images."""
    from coopsim.record.capture.models._step import build_classifier

    return build_classifier(setting, network, PARAMETERS, PIXELS)


MODEL = Model(
    name="shufflenet-v2",
    title="ShuffleNetV2 x1.0, 224x224 images",
    batch=256,
    source="Ma et al. 2018, as torchvision (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS},
)
step = MODEL.step
